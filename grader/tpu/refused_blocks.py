"""Which of a kernel's blocks a TPU refuses: the rules of `tiling`, applied to a kernel."""

from __future__ import annotations

from collections.abc import Iterator

from grader.model import KernelCall, Operand, Role
from grader.tpu.tiling import Block, Space, Violation, dtype_bits, nearest_legal_blocks, violations


def refused_blocks(call: KernelCall) -> tuple[tuple[Operand, tuple[Violation, ...]], ...]:
    """The inputs and outputs whose blocks a TPU refuses, and why."""
    found = ((operand, _broken(operand)) for operand in call.role(Role.INPUT, Role.OUTPUT))
    return tuple(each for each in found if each[1])


def in_short(call: KernelCall) -> str:
    """The blocks that a TPU refuses, in a few words; nothing where it refuses none."""
    refused = refused_blocks(call)
    if not refused:
        return ""
    first, _ = refused[0]
    more = f" and {len(refused) - 1} more" if len(refused) > 1 else ""
    return f"a TPU refuses block {written(first.block)} of {first.name}{more}"


def explained(operand: Operand, found: tuple[Violation, ...]) -> Iterator[tuple[str, str]]:
    """What a block breaks, and what would be legal, as paragraphs with their labels."""
    yield "ref", f"{operand.name}: block {written(operand.block)} of {operand.array}"
    for violation in found:
        yield "rule", _rule(operand, violation)
    shape, bits = operand.array.shape, dtype_bits(operand.array.dtype)
    legal = nearest_legal_blocks(operand.block, shape, bits, _space(operand))
    if legal and legal != (operand.block,):
        yield "legal", f"nearest: {_either(tuple(map(written, legal)))}"


def written(block: Block) -> str:
    """A block's shape as it is written: "(8, None, 128)"."""
    return f"({', '.join(map(str, block))}{',' * (len(block) == 1)})"


def _either(texts: tuple[str, ...]) -> str:
    *others, last = texts
    return f"{', '.join(others)} and {last}" if others else last


def _space(operand: Operand) -> Space:
    return Space.of(None if operand.space == "default" else operand.space)


def _broken(operand: Operand) -> tuple[Violation, ...]:
    try:
        bits = dtype_bits(operand.array.dtype)
    except ValueError:  # random keys, semaphores: no block of numbers
        return ()
    shape = operand.array.shape
    return violations(operand.block, shape, bits, _space(operand), moves=operand.moves)


def _rule(operand: Operand, violation: Violation) -> str:
    if violation.dimension is None:
        return violation.rule.value
    size = operand.block[violation.dimension]
    whole = operand.array.shape[violation.dimension]
    got = "squeezed" if size is None else f"a block of {size}"
    return f"dimension {violation.dimension} ({got} of {whole}): {violation.rule.value}"
