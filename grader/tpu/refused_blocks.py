"""Which of a kernel's blocks a TPU refuses, by the rules in `tiling`."""

from __future__ import annotations

from collections.abc import Iterator

from grader.model import KernelCall, Operand, Role
from grader.tpu.tiling import (
    Block,
    Space,
    Violation,
    dtype_bits,
    kinds_violations,
    nearest_legal_blocks,
    violations,
)


def refused_blocks(call: KernelCall) -> tuple[tuple[Operand, tuple[Violation, ...]], ...]:
    """The inputs and outputs whose blocks a TPU refuses, and why."""
    operands = (
        (operand, _broken(operand, bool(call.grid)))
        for operand in call.role(Role.INPUT, Role.OUTPUT)
    )
    return tuple((operand, broken) for operand, broken in operands if broken)


def refused_blocks_phrase(call: KernelCall) -> str:
    """The blocks that a TPU refuses, in a few words; "" where it refuses none."""
    refused = refused_blocks(call)
    if not refused:
        return ""
    first, _ = refused[0]
    others = f" and {len(refused) - 1} more" if len(refused) > 1 else ""
    return f"a TPU refuses block {block_text(first.block)} of {first.name}{others}"


def block_paragraphs(operand: Operand, broken: tuple[Violation, ...]) -> Iterator[tuple[str, str]]:
    """Which rules a block breaks, and what would be legal, as paragraphs with their labels."""
    yield "ref", f"{operand.name}: block {block_text(operand.block)} of {operand.array}"
    for violation in broken:
        yield "rule", _rule(operand, violation)
    shape, bits = operand.array.shape, dtype_bits(operand.array.dtype)
    legal = nearest_legal_blocks(operand.block, shape, bits, _space(operand))
    if legal and legal != (operand.block,):
        yield "legal", f"nearest: {_either(tuple(map(block_text, legal)))}"
    if operand.space == "smem" and operand.role is Role.INPUT:
        yield "try", _WHOLE_TABLE


_WHOLE_TABLE = (
    "A table that is read number by number needs no blocks: pl.BlockSpec(memory_space=pltpu.SMEM) "
    "puts all of it into SMEM, and the kernel indexes it with its grid step."
)


def block_text(block: Block) -> str:
    """A block's shape as it is written: "(8, None, 128)"."""
    return f"({', '.join(map(str, block))}{',' * (len(block) == 1)})"


def _either(texts: tuple[str, ...]) -> str:
    *others, last = texts
    return f"{', '.join(others)} and {last}" if others else last


def _space(operand: Operand) -> Space:
    return Space.of(None if operand.space == "default" else operand.space)


def _broken(operand: Operand, on_grid: bool) -> tuple[Violation, ...]:
    try:
        bits = dtype_bits(operand.array.dtype)
    except ValueError:  # random keys, semaphores: no block of numbers
        return ()
    shape = operand.array.shape
    space = _space(operand)
    broken = violations(operand.block, shape, bits, space, moves=operand.moves)
    return (*broken, *(kinds_violations(operand.kinds, space) if on_grid else ()))


def _rule(operand: Operand, violation: Violation) -> str:
    if violation.dimension is None:
        return violation.rule.value
    size = operand.block[violation.dimension]
    whole = operand.array.shape[violation.dimension]
    got = "squeezed" if size is None else f"a block of {size}"
    return f"dimension {violation.dimension} ({got} of {whole}): {violation.rule.value}"
