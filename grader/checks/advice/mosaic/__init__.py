"""What Mosaic does not lower: why a TPU can't do it, and the usual way round.

`tests/test_lowers.py` holds every way round to what it says: a kernel with its indented lines is
lowered.
"""

from __future__ import annotations

import re

from grader.checks.advice.mosaic.launches import LAUNCHES
from grader.checks.advice.mosaic.memory import MEMORY
from grader.checks.advice.mosaic.refused import Refused
from grader.checks.advice.mosaic.vector_ops import FORMULAS, VALUES
from grader.model import Problem

#: The first that matches is given.
ADVICE = (*VALUES, *MEMORY, *LAUNCHES)


def advice_for(problem: Problem) -> Refused | None:
    """What is known about a refusal, if anything."""
    name = problem.operation.name if problem.operation else ""
    if formula := FORMULAS.get(name):
        return _formula(name, formula)
    operands = problem.operation.operands if problem.operation else ()
    text = " ".join([*(operand.dtype for operand in operands), problem.message])
    for advice in ADVICE:
        known = not advice.operations or name in advice.operations
        if known and re.search(advice.text, text):
            return advice
    return None


def _formula(name: str, formula: str) -> Refused:
    why = f"The TPU has no instruction for {name}, and Mosaic does not build it from others."
    way = f"Write it with functions that are there:\n    {formula}"
    if name == "erfc":
        way += "\nFor an exact GELU:\n    x / 2 * (1 + lax.erf(x / jnp.sqrt(2.0)))"
    return Refused((name,), "", why, way)
