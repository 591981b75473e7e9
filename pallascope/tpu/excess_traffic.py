"""Bottlenecks: bytes moved more often than needed, padding, XLA's copies.

`bottlenecks` adds the other causes, and ranks all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pallascope.model import CopyReason, Role
from pallascope.tools.text import format_bytes
from pallascope.tpu.block_rules import dtype_bits
from pallascope.tpu.chips import named
from pallascope.tpu.prediction import Prediction
from pallascope.tpu.traffic import OperandTraffic


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """One cause of a kernel's cost: a phrase, the explanation, and advice.

    `cycles` is an estimate of its largest cost; `size` the excess in bytes over par.
    """

    phrase: str
    why: str
    remedy: str
    cycles: float
    size: int = 0


_WHY = {
    CopyReason.KEPT: (
        "XLA copies {} before the kernel, {}: input_output_aliases gives its buffer to an output, "
        "and the launch's caller keeps it."
    ),
    CopyReason.READ_LATER: (
        "XLA copies {} before the kernel, {}: input_output_aliases gives its buffer to an output, "
        "and it is read once more."
    ),
    CopyReason.ELSEWHERE: (
        "XLA copies {} after the kernel, {}: the caller donates the array that it replaces, "
        "and the kernel writes it to another buffer."
    ),
    CopyReason.EXCHANGED: (
        "XLA copies {} twice after the kernel, {}: by input_output_aliases, it and another output "
        "lie in each other's places."
    ),
}
_TRY = {
    CopyReason.KEPT: (
        "Alias an input only if the caller gives it away, by donate_argnames of jax.jit: a kernel "
        "can't overwrite the others."
    ),
    CopyReason.READ_LATER: (
        "Alias an input only in the last kernel that reads it, and pass it to that kernel once."
    ),
    CopyReason.ELSEWHERE: (
        "Alias the input that the output replaces: input_output_aliases={position among the "
        "inputs: position among the outputs}."
    ),
    CopyReason.EXCHANGED: (
        "Alias each input with its own new value: input_output_aliases={position among the "
        "inputs: position among the outputs}."
    ),
}


def xla_copies(own: Prediction, par: Prediction | None) -> Iterator[Bottleneck]:
    """XLA's copies, if par has fewer."""
    if par and len(own.copied) <= len(par.copied):
        return
    # If outputs are exchanged, that is the reason for all of their copies.
    ring = any(copy.reason is CopyReason.EXCHANGED for copy in own.copied)
    for copy in own.copied:
        reason, label = copy.reason, own.labels[copy.operand]
        if ring and reason is CopyReason.ELSEWHERE:
            continue
        size = own.size_of(copy) * (len(own.copied) if ring else 1)
        yield Bottleneck(
            f"XLA copies {label} {'after' if reason in _AFTER_THE_KERNEL else 'before'} the kernel",
            _WHY[reason].format(label, f"{format_bytes(size)} in and out"),
            _TRY[reason],
            own.cycles_of(copy),
            size if par else 0,
        )


_AFTER_THE_KERNEL = (CopyReason.ELSEWHERE, CopyReason.EXCHANGED)


def excess_bytes(own: Prediction, par: Prediction | None) -> Iterator[Bottleneck]:
    """Operands that move more bytes than par's, or, without par, than their distinct blocks."""
    chip = named(own.chip)
    for position, row in enumerate(own.traffic.operands):
        if not row.bytes or not row.least:
            continue
        par_position = _counterpart(own, par, position)
        if par and par_position is None and (single := _unstacked(own, par, position)):
            yield _stacked_copies(own, position, single)
            continue
        other = par.traffic.operands[par_position] if par and par_position is not None else None
        if par and other is None and (narrow := _narrower(par, row)):
            yield _wider_dtype(own, position, narrow)
            continue
        needed = other.bytes if other and other.bytes else row.least
        excess = row.bytes - needed
        if excess <= 0:
            continue
        cycles = excess / own.sharing / own.bandwidth * chip.clock
        if own.schedule:  # bytes that move during compute cost nothing
            cycles = min(cycles, own.schedule.stalled)
        size = excess if other else 0
        against = "par" if other else "needed"
        verb = "writes" if row.role is Role.OUTPUT else "reads"
        label, times = own.labels[position], row.bytes / needed
        phrase = f"{verb} {label} {times:.1f}× as much as {against}"
        if row.padding > row.bytes / 2 and (not other or row.padding > other.padding):
            yield Bottleneck(phrase, _padding(label, row), _PADDED, cycles, size)
            continue
        reuse = own.reuse[position]
        why = f"{label} moves {format_bytes(row.bytes)} in {row.moves:,} blocks: {reuse}"
        kept = par.reuse[par_position] if par and par_position is not None else None
        if other and kept and kept != reuse:
            same = "keeps it for all steps" if kept.axis is None else f"keeps it for {kept.kept}"
            why += f"; par {same}"
        elif other and other.bytes:
            why += f"; par moves {format_bytes(other.bytes)} in {other.moves:,}"
        if row.by_hand:
            copies = f"{row.moves:,} cop{'y' if row.moves == 1 else 'ies'}"
            why = (
                f"{label} moves {format_bytes(row.bytes)} in {copies} that the kernel makes itself"
            )
            remedy = _COPIED_AGAIN
        elif other is None:
            remedy = _REFETCHED_ALONE
        else:
            remedy = _REFETCHED_SMALL if _has_smaller_blocks(own, par) else _REFETCHED
        yield Bottleneck(phrase, why + ".", remedy, cycles, size)


def _unstacked(own: Prediction, par: Prediction, position: int) -> OperandTraffic | None:
    """The input of par of which this operand may be a stack of copies, by its shape."""
    row = own.traffic.operands[position]
    arrays = [operand.array for operand in own.traffic.operands]
    for other in par.traffic.operands:
        shape = other.array.shape
        inner = len(row.array.shape) > len(shape) > 0 and row.array.shape[-len(shape) :] == shape
        alike = (other.role, other.array.dtype) == (row.role, row.array.dtype)
        fewer = 0 < (other.bytes or 0) < (row.bytes or 0)
        if inner and alike and fewer and other.array not in arrays:
            return other
    return None


def _stacked_copies(own: Prediction, position: int, single: OperandTraffic) -> Bottleneck:
    """The cost of reading a stack of copies where par reads a single array."""
    chip, row, label = named(own.chip), own.traffic.operands[position], own.labels[position]
    mine, pars = row.bytes or 0, single.bytes or 1
    more = mine - pars
    cycles = more / chip.bandwidth * chip.clock
    return Bottleneck(
        f"reads {label} {mine / pars:.1f}× as much as par",
        f"{label} is {row.array}, of which {format_bytes(mine)} move; par's is {single.array}, of "
        f"which {format_bytes(pars)} move.",
        _STACKED,
        min(cycles, own.schedule.stalled) if own.schedule else cycles,
        more,
    )


_NUMBERS = ("bfloat", "float", "int", "uint")


def _narrower(par: Prediction, row: OperandTraffic) -> OperandTraffic | None:
    """Par's operand of the same role and shape with a narrower dtype, if there is one."""
    return next(
        (
            other
            for other in par.traffic.operands
            if (other.role, other.array.shape) == (row.role, row.array.shape)
            and 0 < (other.bytes or 0) < (row.bytes or 0)
            and other.array.dtype.startswith(_NUMBERS)
            and row.array.dtype.startswith(_NUMBERS)
            and dtype_bits(other.array.dtype) < dtype_bits(row.array.dtype)
        ),
        None,
    )


def _wider_dtype(own: Prediction, position: int, narrow: OperandTraffic) -> Bottleneck:
    """An operand of a wider dtype than par's."""
    row, label, chip = own.traffic.operands[position], own.labels[position], named(own.chip)
    mine, pars = row.bytes or 0, narrow.bytes or 0
    more = mine - pars
    cycles = more / chip.bandwidth * chip.clock
    if own.schedule:
        cycles = min(cycles, own.schedule.stalled)
    return Bottleneck(
        f"{label} is {row.array.dtype} where par's is {narrow.array.dtype}",
        f"{label} moves {format_bytes(mine)}: it is {row.array} where par has {narrow.array}, "
        f"which moves {format_bytes(pars)}.",
        "Leave arrays in their dtype: cast in the kernel, after the load, where each element is in "
        "VMEM already.",
        cycles,
        more,
    )


_STACKED = (
    "Pass the one array, without copies. A block stays in VMEM along each grid axis that its index "
    "map doesn't use; for jax.vmap, that is in_axes=None."
)
_REFETCHED = (
    "A block moves whenever its index differs from the previous step's. Order the grid so that "
    "this operand's index map doesn't use the innermost axis."
)
_REFETCHED_SMALL = (
    "Take larger blocks, as par does: an operand is read again for every block of the dimensions "
    "that it doesn't have, so twice the block size there is half the traffic."
)
_REFETCHED_ALONE = (
    "An operand is read again for every block of the grid dimensions that its index map doesn't "
    "use: larger blocks along those, or a grid that has them innermost, read it less often."
)
_COPIED_AGAIN = (
    "Keep in VMEM the data that a step needs again: copy each part once, or make the loop that "
    "needs it least the outer one."
)
_PADDED = (
    "Put a dimension of at least 128 along the lanes (the last), and one of at least 8 along the "
    "sublanes (the second to last): transpose, or join dimensions."
)


def _padding(label: str, row: OperandTraffic) -> str:
    part = row.padding / (row.bytes or 1)
    return (
        f"{part:.0%} of {label}'s bytes are padding: {row.array} lies in HBM and VMEM in tiles "
        "of 8 sublanes by 128 lanes of 32 bits."
    )


def _counterpart(own: Prediction, par: Prediction | None, position: int) -> int | None:
    """The position of par's operand with the same array, role and rank among such operands."""
    if par is None:
        return None
    row = own.traffic.operands[position]

    def alike(rows: Sequence[OperandTraffic]) -> list[int]:
        return [n for n, o in enumerate(rows) if (o.role, o.array) == (row.role, row.array)]

    place = alike(own.traffic.operands).index(position)
    among = alike(par.traffic.operands)
    return among[place] if place < len(among) else None


def _has_smaller_blocks(own: Prediction, par: Prediction | None) -> bool:
    """Whether the kernel's blocks are smaller than par's."""
    return par is not None and own.traffic.vmem < par.traffic.vmem
