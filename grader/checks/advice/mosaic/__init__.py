"""What Mosaic does not lower: why a TPU can't do it, and the usual workaround.

vector_ops   operations on values in vector registers
memory       loads, stores, copies, loops and calls
launches     any operation, or the launch around it: dtypes and blocks
workaround   what one entry of these holds

`tests/checks/test_lowers.py` lowers a kernel with the indented lines of every workaround.
"""

from __future__ import annotations

import re

from grader.checks.advice.mosaic.launches import LAUNCHES
from grader.checks.advice.mosaic.memory import MEMORY
from grader.checks.advice.mosaic.vector_ops import FORMULAS, VALUES
from grader.checks.advice.mosaic.workaround import Workaround
from grader.model import Problem

#: The first that matches is given.
WORKAROUNDS = (*VALUES, *MEMORY, *LAUNCHES)


def workaround_for(problem: Problem) -> Workaround | None:
    """What is known about a refusal, if anything is."""
    name = problem.operation.name if problem.operation else ""
    if formula := FORMULAS.get(name):
        return _formula(name, formula)
    operands = problem.operation.operands if problem.operation else ()
    text = " ".join([*(operand.dtype for operand in operands), problem.message])
    for advice in WORKAROUNDS:
        known = not advice.operations or name in advice.operations
        if known and re.search(advice.text, text):
            return advice
    return None


def _formula(name: str, formula: str) -> Workaround:
    why = f"The TPU has no instruction for {name}, and Mosaic does not build it from others."
    remedy = f"Write it with functions that Mosaic has:\n    {formula}"
    if name == "erfc":
        remedy += (
            "\nThe difference loses digits from x = 1 on, and all at 4: what needs the tail "
            "is computed outside the kernel."
        )
        remedy += "\nFor an exact GELU:\n    x / 2 * (1 + lax.erf(x / jnp.sqrt(2.0)))"
    return Workaround((name,), "", why, remedy)
