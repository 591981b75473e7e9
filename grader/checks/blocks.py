"""★★ Does every BlockSpec obey the TPU's block-shape rules?"""

from __future__ import annotations

from grader.checks.evidence import Evidence
from grader.checks.words import listed, paragraph
from grader.model import Check, Finding, Operand, Role
from grader.tpu.tiling import Space, Violation, dtype_bits, nearest_legal_blocks, violations


def check(evidence: Evidence) -> Finding | None:
    """Look at the blocks of every kernel in the trace, without running anything."""
    trace = evidence.observed.trace
    if trace is None:
        return None
    broken = [
        (operand, found)
        for call in trace.calls
        for operand in call.role(Role.INPUT, Role.OUTPUT)
        if (found := _violations(operand))
    ]
    if not broken:
        return None
    names = listed(operand.name for operand, _ in broken)
    first, _ = broken[0]
    return Finding(
        Check.BLOCKS,
        f"a TPU refuses block {_block(first)} of {names}",
        "The values are right, but a TPU would not take these blocks.\n"
        + "\n".join(_explained(operand, found) for operand, found in broken),
    )


def _space(operand: Operand) -> Space:
    return Space.of(None if operand.space == "default" else operand.space)


def _violations(operand: Operand) -> tuple[Violation, ...]:
    try:
        bits = dtype_bits(operand.array.dtype)
    except ValueError:  # random keys, semaphores: no block of numbers
        return ()
    shape, space = operand.array.shape, _space(operand)
    return violations(operand.block, shape, bits, space, moves=operand.moves)


def _explained(operand: Operand, found: tuple[Violation, ...]) -> str:
    parts = [
        paragraph("ref", f"{operand.name}: block {_block(operand)} of {operand.array}"),
        *(paragraph("rule", _rule(operand, violation)) for violation in found),
    ]
    legal = nearest_legal_blocks(
        operand.block, operand.array.shape, dtype_bits(operand.array.dtype), _space(operand)
    )
    if legal and legal != (operand.block,):
        parts.append(paragraph("legal", f"nearest: {listed(map(_shape, legal))}"))
    return "\n".join(parts)


def _rule(operand: Operand, violation: Violation) -> str:
    if violation.dimension is None:
        return violation.rule.value
    size = operand.block[violation.dimension]
    whole = operand.array.shape[violation.dimension]
    got = "squeezed" if size is None else f"a block of {size}"
    return f"dimension {violation.dimension} ({got} of {whole}): {violation.rule.value}"


def _block(operand: Operand) -> str:
    return _shape(operand.block)


def _shape(block: tuple[int | None, ...]) -> str:
    return f"({', '.join(map(str, block))}{',' if len(block) == 1 else ''})"
