"""★ Where there is no kernel, and blocks are to be looked at one by one: is any array too large?

What is computed for all blocks at once holds all of them, however small the results are. The bound
comes from the case alone, and is that of the operations around a kernel.
"""

from __future__ import annotations

import math

from grader.checks.evidence import Evidence
from grader.checks.outside import LARGEST
from grader.checks.prose import paragraph
from grader.model import Array, ArrayType, Check, Finding, Operation


def check(evidence: Evidence) -> Finding | None:
    """Look for an array that is larger than those of the inputs and results explain."""
    trace = evidence.observed.trace
    reference = evidence.reference
    own = max((_elements(array) for array in (*reference.inputs, *reference.results)), default=1)
    made = [(array, o) for o in (trace.outside if trace else ()) for array in o.results]
    if not made:
        return None
    array, operation = max(made, key=lambda found: _elements(found[0]))
    if _elements(array) <= LARGEST * own:
        return None
    return _finding(array, operation, own, evidence.file)


def _elements(array: Array | ArrayType) -> int:
    return math.prod(array.shape)


def _finding(array: ArrayType, operation: Operation, own: int, file: str) -> Finding:
    size = _elements(array)
    parts = [
        f"The program makes {array}, {size:,} elements at once. The largest of its inputs and "
        f"results has {own:,}; up to {LARGEST} times as many pass."
    ]
    if operation.line:
        parts.append(paragraph("line", f"{file}:{operation.line}"))
    parts += [
        paragraph(
            "why",
            "Such an array holds all blocks together, and grows with the product of the lengths: "
            "where the results are still small, it no longer fits into memory.",
        ),
        paragraph(
            "try",
            "Go through the blocks, or rows of blocks, one after another: jax.lax.scan carries "
            "what has been found so far, and jax.lax.map stacks what it finds in each. (jax.vmap "
            "makes all of them at once.)",
        ),
    ]
    return Finding(Check.COST, f"holds all blocks at once: {array}", "\n".join(parts))
