"""The data of the page of `kata view`, as JSON.

Sizes are in elements or bytes, times in cycles of the chip. Increasing sequences are stored as
differences: [3, 2, 5] stands for 3, 5, 10.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class WrongBlock:
    """A block with wrong elements: its index, how many of how many, and the largest error.

    `worst` is a number in words, or "not a number".
    """

    at: tuple[int, ...]
    wrong: int
    of: int
    worst: str


@dataclass(frozen=True, slots=True)
class WrongElements:
    """A result's wrong elements.

    The array is cut into cells, `cells` of them along each dimension; `size` is theirs in elements
    and divides no block's: the last cell of a block is what is left. Cell by cell, row-major:
    `share` is the percentage of wrong elements, rounded up. `nan` are the numbers of the cells in
    which one is no number. `blocks` are the first of `wrong_blocks` of `of_blocks`.
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
    """What happens in one lane: for each slice the gap before it, its length, its kind's number."""

    name: str
    kinds: tuple[str, ...]
    slices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Copied:
    """What a kernel copies by itself of one operand, in one direction, as far as events are known.

    `most` is how many copies are on their way at a time, at most. `semaphores` count them.
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

    `steps` holds when each grid step begins, as differences, and the end of the last: empty where
    the schedule's turns are not the grid's steps. `turns` is when each turn of the kernel's own
    outermost loop begins, where the grid has one step. Events are known up to `until`.

    `by_hand` is empty where the kernel copies nothing by itself. Else `computing` are the cycles
    in which the core does not wait, `hidden` those of them during which such a copy is on its way,
    and `waiting` those in which the core waits for one.
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
    """An operand's `motion.Path`; `first` as differences."""

    first: tuple[int, ...]
    place: tuple[int, ...]
    starts: tuple[int, ...]
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OperandView:
    """One Ref. `block` counts a squeezed dimension as 1, which `squeezed` lists.

    `counted` tells whether its moves and bytes are known; else they are 0, and `note` says why.
    `windows` is how many copies of its block VMEM holds: 0 for what is not there.
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
    """A scalar-prefetch operand's contents, row-major; None where they are not known.

    `untold` are operands whose index maps read it in a way that is not followed.
    """

    operand: int
    cells: tuple[int, ...] | None
    untold: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TableCellRead:
    """An index map reads `cell` of a table from each step in `first` (differences) on.

    `cell` is -1 where a condition keeps it from reading.
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
    """One kernel's VMEM in bytes. `reported`: by the compiler, else by the blocks' shapes."""

    limit: int
    used: int
    reported: bool
    held: tuple[Held, ...]


@dataclass(frozen=True, slots=True)
class ChipTable:
    """The chips of a mesh, moment by moment: what each does, and what is on the links.

    `moments` has a list for each moment, with a list of phrases for each of `chips`; `links` has
    the phrases of what is on its way between them. `note` says why that is not all.
    """

    chips: tuple[str, ...]
    moments: tuple[tuple[tuple[str, ...], ...], ...]
    links: tuple[tuple[str, ...], ...]
    note: str


@dataclass(frozen=True, slots=True)
class KernelView:
    """One kernel: `steps` of its grid, of which `shown` can be stepped through.

    `read`, `written` and `least` are bytes, those of `traffic.Traffic`. `untold` says why there is
    no timeline, `refusal` why the compiler takes no such kernel. `chip_table` is what the chips of
    a mesh do with each other.
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
class Document:
    """One launch. `trouble` says what kept all or part of it from being known.

    `other` are wrong results that are no kernel's output as they stand.
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


def differences(growing: Sequence[int]) -> tuple[int, ...]:
    """Each number less the one before it."""
    return tuple(b - a for a, b in itertools.pairwise((0, *growing)))
