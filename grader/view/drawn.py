"""One kernel for the page: what was found out of it, put into the document's words."""

from __future__ import annotations

from collections.abc import Sequence

from grader import model
from grader.model import KernelCall, Role
from grader.tpu import Prediction
from grader.tpu.by_hand import as_scheduled
from grader.tpu.chips import named
from grader.tpu.libtpu_errors import Kind
from grader.tpu.motion import Motion, Path, TableRead
from grader.tpu.traffic import OperandTraffic, Traffic
from grader.tpu.vmem import Allocation, Use, footprint, in_vmem, is_fixed, limit_of
from grader.view.document import (
    Held,
    Kernel,
    Memory,
    Operand,
    Read,
    Runs,
    Table,
    Wrong,
    differences,
)
from grader.view.meeting import meeting_of
from grader.view.timeline import timeline

#: What the page says of scratch that takes no memory.
DROPPED = "dropped by the compiler: not needed at these sizes"
#: What the page calls an allocation that is no operand's.
_USES = {Use.SPILL: "spilled registers", Use.OTHER: "the compiler's own", Use.SCRATCH: "scratch"}


def kernel_of(
    motion: Motion,
    prediction: Prediction | None,
    chip: str,
    wrong: Sequence[Wrong | None] = (),
    refusal: str = "",
) -> Kernel:
    """One kernel for the page. `wrong` is of its outputs, in their order."""
    moved, call = _traffic(motion, prediction), motion.call
    found = iter(wrong)
    rows = zip(motion.labels, moved.operands, motion.paths, call.operands, strict=True)
    drawn = None if prediction is None else timeline(prediction)
    memory = _memory(call, prediction, chip)
    return Kernel(
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
            Table(position, motion.tables[position], _untold_reads(motion, position))
            for position, row in enumerate(moved.operands)
            if row.role is Role.PREFETCH
        ),
        reads=tuple(_read(one) for one in motion.reads if one.first),
        memory=memory,
        timeline=drawn,
        untold="" if drawn else _untold(prediction),
        refusal=refusal,
        meeting=meeting_of(motion.side_by_side) if motion.side_by_side else None,
    )


def _traffic(motion: Motion, prediction: Prediction | None) -> Traffic:
    """What moves; what the kernel copies by itself as scheduled, where there is a schedule."""
    if prediction is None or prediction.schedule is None or prediction.sharing > 1:
        return motion.traffic
    return as_scheduled(motion.traffic, motion.labels, prediction.schedule)


def _operand(
    label: str,
    one: model.Operand,
    row: OperandTraffic,
    path: Path | None,
    memory: Memory,
    windows: int,
    wrong: Wrong | None,
) -> Operand:
    dropped = bool(windows) and _dropped(one, memory)
    return Operand(
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


def _dropped(one: model.Operand, memory: Memory) -> bool:
    """Whether the compiler's report has no memory for scratch: at these sizes nothing needs it.

    What it reports without a name may be that of any scratch.
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


def _runs(path: Path) -> Runs:
    return Runs(differences(path.first), path.place, path.starts, path.sizes)


def _read(read: TableRead) -> Read:
    return Read(read.operand, read.table, differences(read.first), read.cell)


def _untold_reads(motion: Motion, table: int) -> tuple[int, ...]:
    """The operands whose index maps read a table in a way that is not followed."""
    return tuple(one.operand for one in motion.reads if one.table == table and not one.first)


def _memory(call: KernelCall, prediction: Prediction | None, chip: str) -> Memory:
    vmem = prediction.vmem if prediction else None
    if vmem and vmem.allocations:
        return Memory(vmem.limit, vmem.used, True, tuple(map(_held, vmem.allocations)))
    failure = prediction.failure if prediction else None
    if failure and failure.wanted and failure.limit:
        held = tuple(map(_held, failure.allocations or footprint(call)))
        return Memory(failure.limit, failure.wanted, True, held)
    held = tuple(map(_held, footprint(call)))
    return Memory(limit_of(call, named(chip)), sum(one.size for one in held), False, held)


def _held(one: Allocation) -> Held:
    name = one.name or _USES.get(one.use, "a block")
    return Held(name, one.use.value, one.shape, one.buffers, one.size)


def _untold(prediction: Prediction | None) -> str:
    """Why there is no timeline."""
    if prediction is None:
        return "the launch did not reach the TPU's compiler"
    if prediction.failure:
        too_large = prediction.failure.kind is Kind.VMEM
        return prediction.failure.message if too_large else "the TPU's compiler refuses the kernel"
    return prediction.unknown
