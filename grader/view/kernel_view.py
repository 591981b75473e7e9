"""One kernel for the page: blocks, wrong elements, chips' communication in words, timeline."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from grader.view.document import (
    ChipTable,
    Copied,
    Held,
    KernelView,
    Lane,
    OperandPath,
    OperandView,
    PrefetchTable,
    TableCellRead,
    Timeline,
    VmemView,
    WrongBlock,
    WrongElements,
    differences,
)
from pallascope import model
from pallascope.checks.compare import Comparison
from pallascope.checks.phrasing import number
from pallascope.model import ActionKind, CommTimeline, DeviceAction, KernelCall, Role
from pallascope.tools.text import format_bytes
from pallascope.tpu import Prediction
from pallascope.tpu.chips import named
from pallascope.tpu.dma_buffers import (
    ManualTransfer,
    Overlap,
    manual_transfers,
    max_concurrent,
    overlap,
    with_scheduled_dma,
)
from pallascope.tpu.libtpu_errors import LibtpuRefusalKind
from pallascope.tpu.perfetto import (
    STEPS,
    Slice,
    lanes,
    last_complete_cycle,
    step_spans,
)
from pallascope.tpu.pipeline_steps import BlockMotion, Path, TableRead
from pallascope.tpu.schedule import Schedule
from pallascope.tpu.traffic import OperandTraffic, Traffic
from pallascope.tpu.vmem import (
    Allocation,
    Use,
    footprint,
    in_vmem,
    is_fixed,
    limit_of,
)

#: Cells along each of an array's last two dimensions; more only if there are more blocks.
MOST = 64
#: Wrong blocks that are listed one by one.
MOST_BLOCKS = 400

Ints = np.ndarray[Any, Any]


def wrong_of(result: Comparison) -> WrongElements:
    """The wrong elements of one result."""
    shape, grid = result.actual.shape, result.grid
    drawn = range(max(len(shape) - 2, 0), len(shape))
    pairs = [
        _cells(n, block, count, MOST if axis in drawn else n)
        for axis, (n, block, count) in enumerate(zip(shape, result.block, grid, strict=True))
    ]
    index = [cell for _, cell in pairs]
    cells = tuple(int(cell[-1]) + 1 if len(cell) else 0 for cell in index)
    counts = _counted(np.ones(shape, bool), index, cells)
    wrong = _counted(result.wrong, index, cells)
    missing = _counted(result.wrong & np.isnan(result.actual), index, cells)
    share = -(-100 * wrong // np.maximum(counts, 1))
    return WrongElements(
        name=result.name,
        shape=shape,
        wrong=int(result.wrong.sum()),
        wrong_blocks=len(result.wrong_blocks),
        of_blocks=len(result.indices()),
        block=result.block,
        size=tuple(size for size, _ in pairs),
        cells=cells,
        share=tuple(share.reshape(-1).tolist()),
        nan=tuple(np.flatnonzero(missing).tolist()),
        blocks=tuple(_block(result, at) for at in result.wrong_blocks[:MOST_BLOCKS]),
    )


def _cells(n: int, block: int, blocks: int, most: int) -> tuple[int, Ints]:
    """A cell's size along one dimension, and each element's cell: cells end where blocks end."""
    per_block = max(1, most // max(blocks, 1))
    size = -(-block // min(per_block, block))
    each = -(-block // size)
    at = np.arange(n)
    return size, at // block * each + at % block // size


def _counted(flags: Ints, index: list[Ints], cells: tuple[int, ...]) -> Ints:
    """How many elements of each cell are flagged."""
    found = flags.astype(np.int64)
    for axis, cell in enumerate(index):
        moved = np.moveaxis(found, axis, 0)
        summed = np.zeros((cells[axis], *moved.shape[1:]), np.int64)
        np.add.at(summed, cell, moved)
        found = np.moveaxis(summed, 0, axis)
    return found


def _block(result: Comparison, at: tuple[int, ...]) -> WrongBlock:
    part = result.part(at)
    wrong = result.wrong[part]
    with np.errstate(invalid="ignore"):
        error = np.abs(result.actual[part] - result.expected[part])[wrong]
    worst = number(float(error.max())) if np.isfinite(error).all() else "not a number"
    return WrongBlock(at, int(wrong.sum()), int(wrong.size), worst)


_CUT = "The run goes on; only its beginning is drawn."
_STUCK = "From here on, chips wait for a semaphore count that never comes."


def chip_table_of(chips: CommTimeline) -> ChipTable | None:
    """The page's data on communication; None if nothing goes from chip to chip."""
    names = [", ".join(map(str, place)) for place in chips.chips]
    deeds = [deed for moment in chips.moments for chip in moment for deed in chip]
    if not any(deed.act in (ActionKind.SENDS, ActionKind.SIGNALS) for deed in deeds):
        return None
    return ChipTable(
        chips=tuple(f"chip {name}" for name in names),
        moments=tuple(
            tuple(tuple(_count_in_words([_said(deed, names) for deed in chip])) for chip in moment)
            for moment in chips.moments
        ),
        links=tuple(
            tuple(
                f"{names[number]} → {names[deed.to]}: {deed.what}, {format_bytes(deed.size)}"
                for number, chip in enumerate(moment)
                for deed in chip
                if deed.act is ActionKind.SENDS
            )
            for moment in chips.moments
        ),
        note=_STUCK if chips.stuck else "" if chips.whole else _CUT,
    )


def _said(deed: DeviceAction, names: list[str]) -> str:
    times = f" {deed.size} times" if deed.size != 1 else ""
    match deed.act:
        case ActionKind.SENDS:
            to = f"chip {names[deed.to]}"
            return f"sends {deed.what} to {to}, into its {deed.into}; {deed.semaphore} counts it"
        case ActionKind.COPIES:
            return f"copies {deed.what} to {deed.into}; {deed.semaphore} counts it"
        case ActionKind.SIGNALS:
            return f"signals {deed.semaphore} of chip {names[deed.to]}{times}"
        case ActionKind.GETS:
            return f"has waited for {deed.semaphore}"
        case ActionKind.WAITS:
            return f"waits for {deed.semaphore}"
        case ActionKind.MULTIPLIES:
            return f"multiplies: {deed.size:,} operations"


def _count_in_words(phrases: list[str]) -> list[str]:
    """The phrases, with repetitions in a row replaced by a count."""
    found = []
    for phrase, group in itertools.groupby(phrases):
        count = len(list(group))
        found.append(f"{phrase} ({count} times)" if count > 1 else phrase)
    return found


#: Most transfers and stalls that are requested: those of about 10,000 grid steps.
EVENTS = 24_000


def timeline(kernel: Prediction) -> Timeline | None:
    """The timeline of a kernel whose schedule kept up to EVENTS of each kind; None without one."""
    if kernel.schedule is None:
        return None
    found = {name: slices for name, slices in lanes(kernel, EVENTS).items() if name != STEPS}
    copies, until = manual_transfers(kernel), last_complete_cycle(kernel.schedule, EVENTS)
    both = overlap(kernel, copies, until) if copies else Overlap(0.0, 0.0)
    steps = step_spans(kernel, EVENTS) or _steps_without_fetches(kernel, kernel.schedule)
    return Timeline(
        cycles=round(kernel.schedule.cycles),
        until=round(until),
        clock=named(kernel.chip).clock,
        steps=differences([round(time) for time in steps]),
        turns=differences([round(time) for time in _turns(kernel.schedule, steps)]),
        lanes=tuple(_lane(name, slices) for name, slices in found.items()),
        by_hand=_copied(copies),
        computing=round(both.computing),
        hidden=round(both.hidden),
        waiting=round(_waiting(kernel.schedule, copies)),
    )


def _turns(schedule: Schedule, steps: Sequence[float]) -> Sequence[float]:
    """The turns of a loop in the body, if the grid has one step."""
    return schedule.turns if len(steps) <= 2 and len(schedule.turns) > 1 else ()


def _steps_without_fetches(kernel: Prediction, schedule: Schedule) -> Sequence[float]:
    """`step_spans` of a grid that pipelines its results alone: step n computes in iteration n.

    Empty if the kernel isn't of that kind.
    """
    steps = math.prod(size or 0 for size in kernel.traffic.grid)
    operands = [one for one in kernel.call.operands if one.space not in ("any", "hbm", "smem")]
    fetched = any(one.role is Role.INPUT for one in operands)
    stored = any(one.role is Role.OUTPUT for one in operands)
    if fetched or not stored or steps < 2 or len(schedule.turns) != steps + 1:
        return ()
    return schedule.turns


def _waiting(schedule: Schedule, copies: Sequence[ManualTransfer]) -> float:
    own = {one.transfer.operand for one in copies}
    return sum(stall.end - stall.start for stall in schedule.stalls if stall.operand in own)


def _copied(copies: Sequence[ManualTransfer]) -> tuple[Copied, ...]:
    groups: dict[tuple[str, bool], list[ManualTransfer]] = {}
    for one in copies:
        groups.setdefault((one.transfer.operand, one.transfer.inward), []).append(one)
    return tuple(
        Copied(
            operand,
            inward,
            copies=len(group),
            size=sum(one.transfer.size for one in group),
            slots=_distinct(one.slot for one in group),
            semaphores=_distinct(one.semaphore for one in group),
            most=max_concurrent(group),
        )
        for (operand, inward), group in groups.items()
    )


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({name for name in names if name}, key=lambda name: (len(name), name)))


def _lane(name: str, slices: Sequence[Slice]) -> Lane:
    kinds = list(dict.fromkeys(one.name for one in slices))
    number = {kind: position for position, kind in enumerate(kinds)}
    flat: list[int] = []
    now = 0
    for one in slices:
        start, end = round(one.start), round(one.end)
        flat += (start - now, end - start, number[one.name])
        now = end
    return Lane(name, tuple(kinds), tuple(flat))


#: The page's note on scratch that takes no memory.
DROPPED = "dropped by the compiler: not needed at these sizes"
#: The page's name of an allocation that belongs to no operand.
_USES = {Use.SPILL: "spilled registers", Use.OTHER: "the compiler's own", Use.SCRATCH: "scratch"}


def kernel_of(
    motion: BlockMotion,
    prediction: Prediction | None,
    chip: str,
    wrong: Sequence[WrongElements | None] = (),
    refusal: str = "",
) -> KernelView:
    """One kernel for the page. `wrong` has an entry for each output, in order."""
    moved, call = _traffic(motion, prediction), motion.call
    found = iter(wrong)
    rows = zip(motion.labels, moved.operands, motion.paths, call.operands, strict=True)
    drawn = None if prediction is None else timeline(prediction)
    memory = _memory(call, prediction, chip)
    return KernelView(
        name=call.name,
        grid=moved.grid,
        steps=motion.steps,
        shown=motion.shown,
        read=moved.read,
        written=moved.written,
        least=moved.least,
        operands=tuple(
            _operand(
                label,
                one,
                row,
                path,
                memory,
                windows=_windows(call, position),
                wrong=next(found, None) if row.role is Role.OUTPUT else None,
            )
            for position, (label, row, path, one) in enumerate(rows)
        ),
        tables=tuple(
            PrefetchTable(position, motion.tables[position], _untold_reads(motion, position))
            for position, row in enumerate(moved.operands)
            if row.role is Role.PREFETCH
        ),
        reads=tuple(_read(one) for one in motion.reads if one.first),
        memory=memory,
        timeline=drawn,
        untold="" if drawn else _untold(prediction),
        refusal=refusal,
        chip_table=chip_table_of(motion.comm_timeline) if motion.comm_timeline else None,
    )


def _traffic(motion: BlockMotion, prediction: Prediction | None) -> Traffic:
    """The traffic; if there is a schedule, the kernel's own copies are taken from it."""
    if prediction is None or prediction.schedule is None or prediction.sharing > 1:
        return motion.traffic
    return with_scheduled_dma(motion.traffic, motion.labels, prediction.schedule)


def _operand(
    label: str,
    one: model.Operand,
    row: OperandTraffic,
    path: Path | None,
    memory: VmemView,
    windows: int,
    wrong: WrongElements | None,
) -> OperandView:
    dropped = bool(windows) and _dropped(one, memory)
    return OperandView(
        label=label,
        role=row.role.value,
        dtype=row.array.dtype,
        shape=row.array.shape,
        block=tuple(1 if size is None else size for size in row.block),
        squeezed=tuple(axis for axis, size in enumerate(row.block) if size is None),
        space=one.space,
        note=DROPPED if dropped else row.note,
        counted=row.bytes is not None,
        moves=row.moves or 0,
        bytes=row.bytes or 0,
        least=row.least or 0,
        element=one.element,
        windows=0 if dropped else windows,
        runs=None if path is None else _runs(path),
        wrong=wrong,
    )


def _dropped(one: model.Operand, memory: VmemView) -> bool:
    """Whether the compiler's report has no memory for scratch: nothing needs it at these sizes.

    An allocation that is reported without a name may belong to any scratch.
    """
    if one.role is not Role.SCRATCH or not memory.reported:
        return False
    held = [each.name for each in memory.held if each.use == Use.SCRATCH.value]
    return one.name not in held and _USES[Use.SCRATCH] not in held


def _windows(call: KernelCall, position: int) -> int:
    operand = call.operands[position]
    if not in_vmem(operand):
        return 0
    return 1 if operand.role is Role.SCRATCH or is_fixed(call, operand) else operand.buffers


def _runs(path: Path) -> OperandPath:
    return OperandPath(differences(path.first), path.place, path.starts, path.sizes)


def _read(read: TableRead) -> TableCellRead:
    return TableCellRead(read.operand, read.table, differences(read.first), read.cell)


def _untold_reads(motion: BlockMotion, table: int) -> tuple[int, ...]:
    """The operands whose index maps read a table in a way that can't be followed."""
    return tuple(one.operand for one in motion.reads if one.table == table and not one.first)


def _memory(call: KernelCall, prediction: Prediction | None, chip: str) -> VmemView:
    vmem = prediction.vmem if prediction else None
    if vmem and vmem.allocations:
        return VmemView(vmem.limit, vmem.used, True, tuple(map(_held, vmem.allocations)))
    failure = prediction.failure if prediction else None
    if failure and failure.wanted and failure.limit:
        held = tuple(map(_held, failure.allocations or footprint(call)))
        return VmemView(failure.limit, failure.wanted, True, held)
    held = tuple(map(_held, footprint(call)))
    return VmemView(limit_of(call, named(chip)), sum(one.size for one in held), False, held)


def _held(one: Allocation) -> Held:
    name = one.name or _USES.get(one.use, "a block")
    return Held(name, one.use.value, one.shape, one.buffers, one.size)


def _untold(prediction: Prediction | None) -> str:
    """Why the timeline is missing."""
    if prediction is None:
        return "the launch did not reach the TPU's compiler"
    if prediction.failure:
        too_large = prediction.failure.kind is LibtpuRefusalKind.VMEM
        return prediction.failure.message if too_large else "the TPU's compiler refuses the kernel"
    return prediction.unknown
