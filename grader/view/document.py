"""The data of the page of `kata view`, as JSON.

Sizes are in elements or bytes, times in cycles of the chip. Increasing sequences are stored as
differences: [3, 2, 5] stands for 3, 5, 10.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

SCHEMA = 2


@dataclass(frozen=True, slots=True)
class WrongBlock:
    """A block with wrong elements: its index, its wrong elements of all, and the largest error.

    `worst` is the error as text, or "not a number".
    """

    at: tuple[int, ...]
    wrong: int
    of: int
    worst: str


@dataclass(frozen=True, slots=True)
class WrongElements:
    """A result's wrong elements.

    The array is cut into cells, `cells` of them along each dimension, of `size` elements each.
    Cells end where blocks end, so a block's last cell may be smaller. For each cell, row-major,
    `share` is the percentage of wrong elements, rounded up. `nan` are the numbers of the cells that
    contain a NaN. Of `of_blocks` blocks `wrong_blocks` are wrong; `blocks` are the first of these.
    """

    name: str
    shape: tuple[int, ...]
    wrong: int
    wrong_blocks: int
    of_blocks: int
    block: tuple[int, ...]
    size: tuple[int, ...]
    cells: tuple[int, ...]
    share: tuple[int, ...]
    nan: tuple[int, ...]
    blocks: tuple[WrongBlock, ...]


@dataclass(frozen=True, slots=True)
class Lane:
    """One lane's slices: for each, the gap before it, its length, and the number of its kind."""

    name: str
    kinds: tuple[str, ...]
    slices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Copied:
    """A kernel's own copies of one operand, in one direction, as far as events are known.

    `most` is the largest number of copies in flight at a time. `semaphores` count them.
    """

    operand: str
    inward: bool
    copies: int
    size: int
    slots: tuple[str, ...]
    semaphores: tuple[str, ...]
    most: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """One kernel's predicted run. Cycles; `clock` is in Hz.

    `steps` has the start of each grid step and the end of the last, as differences; it is empty if
    the schedule's turns are not the grid's steps. If the grid has one step, `turns` has the start
    of each turn of the kernel's own outermost loop. Events are known up to `until`.

    `by_hand` is empty if the kernel makes no copies itself. Otherwise `computing` are the cycles in
    which the core does not wait, `hidden` the part of these with such a copy in flight, and
    `waiting` the cycles in which the core waits for one.
    """

    cycles: int
    until: int
    clock: float
    steps: tuple[int, ...]
    turns: tuple[int, ...]
    lanes: tuple[Lane, ...]
    by_hand: tuple[Copied, ...]
    computing: int
    hidden: int
    waiting: int


@dataclass(frozen=True, slots=True)
class OperandPath:
    """An operand's `pipeline_steps.Path`; `first` as differences."""

    first: tuple[int, ...]
    place: tuple[int, ...]
    starts: tuple[int, ...]
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OperandView:
    """One Ref. `block` counts a squeezed dimension as 1, which `squeezed` lists.

    `counted`: its moves and bytes are known; otherwise they are 0, and `note` says why. `windows`
    is the number of buffers for its block in VMEM: 0 if it has none.
    """

    label: str
    role: str
    dtype: str
    shape: tuple[int, ...]
    block: tuple[int, ...]
    squeezed: tuple[int, ...]
    space: str
    note: str
    counted: bool
    moves: int
    bytes: int
    least: int
    element: bool
    windows: int
    runs: OperandPath | None
    wrong: WrongElements | None


@dataclass(frozen=True, slots=True)
class PrefetchTable:
    """A scalar-prefetch operand's contents, row-major; None if they are not known.

    `untold` are operands whose index maps read it in a way that can't be followed.
    """

    operand: int
    cells: tuple[int, ...] | None
    untold: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TableCellRead:
    """From each step in `first` (differences) on, an index map reads the next `cell` of a table.

    `cell` is -1 if a condition keeps it from reading.
    """

    operand: int
    table: int
    first: tuple[int, ...]
    cell: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Held:
    """A piece of VMEM: `size` bytes for all `buffers` of `shape`."""

    name: str
    use: str
    shape: str
    buffers: int
    size: int


@dataclass(frozen=True, slots=True)
class VmemView:
    """One kernel's VMEM in bytes. `reported`: by the compiler, else from the blocks' shapes."""

    limit: int
    used: int
    reported: bool
    held: tuple[Held, ...]


@dataclass(frozen=True, slots=True)
class ChipTable:
    """The chips of a mesh, moment by moment: each chip's actions, and the copies on the links.

    `moments` has a list for each moment, with a list of phrases for each of `chips`. `links` has,
    for each moment, phrases for the copies between chips. `note` says why this is incomplete.
    """

    chips: tuple[str, ...]
    moments: tuple[tuple[tuple[str, ...], ...], ...]
    links: tuple[tuple[str, ...], ...]
    note: str


@dataclass(frozen=True, slots=True)
class KernelView:
    """One kernel: `steps` of its grid, of which `shown` can be stepped through.

    `read`, `written` and `least` are the bytes of `traffic.Traffic`. `untold` says why the timeline
    is missing, `refusal` why the compiler refuses the kernel. `chip_table` is the communication
    between the chips of a mesh.
    """

    name: str
    grid: tuple[int | None, ...]
    steps: int
    shown: int
    read: int
    written: int
    least: int
    operands: tuple[OperandView, ...]
    tables: tuple[PrefetchTable, ...]
    reads: tuple[TableCellRead, ...]
    memory: VmemView
    timeline: Timeline | None
    untold: str
    refusal: str
    chip_table: ChipTable | None


@dataclass(frozen=True, slots=True)
class VerdictView:
    """`state` is passed, failed, todo or unasked; `words` a phrase, `text` the finding in full."""

    state: str
    words: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class NumberTable:
    """Arrays of a case as a table of text: a column of indices, headed `index`, then `columns`.

    Each of `rows` begins with its index. `wrong` are the row-major numbers of wrong cells, without
    the indices. `note` says which part of a large array is shown.
    """

    title: str
    index: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    wrong: tuple[int, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class RoofOfDtype:
    """A peak in operations per second, and the dtype that it is for."""

    name: str
    peak: float


@dataclass(frozen=True, slots=True)
class PredictedPoint:
    """The learner's numbers for a program; all 0 if there are none, or if one isn't positive."""

    name: str
    bytes: float
    operations: float
    seconds: float


@dataclass(frozen=True, slots=True)
class RooflinePicture:
    """A chip's roofline with the learner's points. `bandwidth` is HBM's in bytes per second."""

    bandwidth: float
    roofs: tuple[RoofOfDtype, ...]
    points: tuple[PredictedPoint, ...]
    note: str


@dataclass(frozen=True, slots=True)
class CaughtKernels:
    """How many of the wrong kernels a test rejects, and how many of the right ones it accepts.

    `ran` is false if the test is still to do, or fails by itself.
    """

    ran: bool
    caught: int
    of: int
    accepted: int
    of_right: int


@dataclass(frozen=True, slots=True)
class Document:
    """One launch; or, of a kata without a launch, its tables, predictions or tested kernels.

    `trouble` says why all or part of it is unknown. `other` are wrong results that aren't the
    output of a kernel unchanged. `about` describes a page without a launch. `numbers` are tables;
    if a kernel reads them, `kernels` has it, and `read_by` names it.
    """

    schema: int
    name: str
    title: str
    case: str
    chip: str
    whose: str
    verdict: VerdictView
    trouble: str
    kernels: tuple[KernelView, ...]
    other: tuple[WrongElements, ...]
    about: str = ""
    numbers: tuple[NumberTable, ...] = ()
    read_by: str = ""
    roofline: RooflinePicture | None = None
    trials: CaughtKernels | None = None


def differences(growing: Sequence[int]) -> tuple[int, ...]:
    """Each number minus the one before it."""
    return tuple(b - a for a, b in itertools.pairwise((0, *growing)))
