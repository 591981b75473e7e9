"""Blocks that nothing wrote, memory that was read before it was written, races."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.checks.compare import Comparison, Index
from grader.checks.diagnoses.suspect import Diagnosis, Suspect, blocks_in_words
from grader.checks.prose import count
from grader.model import Operand, Role, Touch


def shared_by_parallel_steps(suspect: Suspect) -> Diagnosis | None:
    """A grid dimension is marked parallel, but its steps write to one output block.

    The trace alone shows it: whether the values are right is then a matter of luck.
    """
    for axis in suspect.call.parallel if suspect.call else ():
        steps = suspect.call.grid[axis] if suspect.call else None
        for output in suspect.refs(Role.OUTPUT):
            pipelined = output.space not in ("any", "hbm")  # else the kernel copies by hand
            if pipelined and steps != 1 and axis not in output.axes:
                return Diagnosis(
                    f"grid dimension {axis} is not parallel: a race",
                    f"Grid dimension {axis} is marked parallel, but all its steps write to the "
                    f"same blocks of {output.name}, whose index map does not use it. Parallel "
                    "steps may run in any order and on two cores, each with its own scratch: a "
                    "race. Mark that dimension arbitrary.",
                )
    return None


def never_visited(suspect: Suspect) -> Diagnosis | None:
    """Blocks that the output's index map returns on no grid step."""
    result = suspect.result
    missed = [index for index in result.indices() if index not in suspect.written]
    if not missed:
        return None
    which = blocks_in_words(missed)
    steps = len(suspect.walk.steps) if suspect.walk else 0
    return Diagnosis(
        f"{which} never written",
        f"In {result.name}, {which} {_were(which)} never written: the output's index map never "
        f"returns {'it' if len(missed) == 1 else 'them'}. The grid has {count(steps, 'step')}, "
        f"the result {count(len(result.indices()), 'block')}.",
    )


def never_stored(suspect: Suspect) -> Diagnosis | None:
    """Elements that stay what memory held before: zeros if it held zeros."""
    result, zeros = suspect.result, suspect.with_zeros
    nan = np.isnan(result.actual) & result.wrong
    if zeros is None or not nan.any() or (zeros[nan] != 0).any() or not result.expected[nan].any():
        return None
    blocks = [index for index in result.indices() if nan[result.part(index)].any()]
    whole = all(nan[result.part(index)].all() for index in blocks)
    unwritten = blocks_in_words(blocks) if whole else f"{_elements(nan, blocks[0], result)}"
    reason = "The kernel stores nothing there."
    touch = next((o.first for o in suspect.refs(Role.OUTPUT) if o.name == result.name), None)
    if touch is Touch.NOTHING:
        reason = (
            f"The kernel's body never stores to {result.name}. {result.name}[...] = value stores; "
            f"{result.name} = value only gives a name to a value."
        )
    elif touch is Touch.GUARDED_WRITE:
        reason = (
            f"The store to {result.name} is under a condition that is false on the steps that "
            "should write it."
        )
    why = f"In {result.name}, {unwritten} {_were(unwritten)} never written. {reason}"
    return Diagnosis(f"{unwritten} never written", why)


def read_before_written(suspect: Suspect) -> Diagnosis | None:
    """NaN that would be another number if memory had started as zeros: garbage was used."""
    if not _garbage(suspect) or (_ragged(suspect) and not _first(suspect, Touch.READ)):
        return None
    sure = _first(suspect, Touch.READ)
    guarded = _first(suspect, Touch.GUARDED_WRITE)
    refs = sure or [o for o in guarded if o.role is Role.SCRATCH] or guarded
    if not refs:
        return None
    name = refs[0].name
    if sure:
        how = "The first thing that the kernel does with it is to read it."
    else:
        how = (
            "It is written only under a condition, and that condition is false on the first step "
            "that reads it."
        )
    role = "Scratch" if refs[0].role is Role.SCRATCH else "An output block"
    return Diagnosis(
        f"{name} read before it was written",
        f"{name} is read before it was written. {how} {role} starts as whatever bits are in "
        "memory; here that is NaN.",
    )


def padding_used(suspect: Suspect) -> Diagnosis | None:
    """NaN from past an input's edge, where the last block overhangs the array."""
    ragged = _ragged(suspect)
    if not ragged or not _garbage(suspect):
        return None
    operand, axis = ragged[0]
    size, block = operand.array.shape[axis], operand.block[axis] or 1
    return Diagnosis(
        f"padding of {operand.name} was used",
        f"The padding of {operand.name} was used. Its dimension {axis} has {size} elements in "
        f"blocks of {block}, so the last block holds only {size % block} of them: what is past the "
        "edge is garbage, and must be masked before anything is computed with it.",
    )


def computed_nan(suspect: Suspect) -> Diagnosis | None:
    """NaN that the arithmetic itself produced."""
    result = suspect.result
    nan = np.isnan(result.actual) & result.wrong
    if not nan.any() or suspect.with_zeros is None or not np.isnan(suspect.with_zeros[nan]).any():
        return None
    return Diagnosis(
        "NaN from arithmetic",
        "The arithmetic itself produces NaN, whatever was in memory before: 0/0, inf − inf, "
        "inf × 0, or the logarithm or root of a negative number.",
        vague=True,
    )


def _garbage(suspect: Suspect) -> bool:
    """Whether the NaN in the result come from memory that nothing had written."""
    nan = np.isnan(suspect.result.actual) & suspect.result.wrong
    if not nan.any() or suspect.with_zeros is None:
        return False
    return not np.isnan(suspect.with_zeros[nan]).any()


def _first(suspect: Suspect, touch: Touch) -> list[Operand]:
    return [o for o in suspect.refs(Role.SCRATCH, Role.OUTPUT) if o.first is touch]


def _ragged(suspect: Suspect) -> list[tuple[Operand, int]]:
    """Input dimensions that their block does not divide, the summed ones first.

    A dimension that the result has too only affects what is past the result's own edge.
    """
    ragged = [
        (operand, axis)
        for operand in suspect.refs(Role.INPUT)
        for axis, block in enumerate(operand.block)
        if block and operand.array.shape[axis] % block
    ]
    kept = suspect.result.actual.shape
    return sorted(ragged, key=lambda place: place[0].array.shape[place[1]] in kept)


def _were(which: str) -> str:
    return "was" if which.startswith("block ") else "were"


def _elements(mask: Any, block: Index, result: Comparison) -> str:
    """The bounding box of the marked elements of one block, in the whole array's indices."""
    part = result.part(block)
    places = np.argwhere(mask[part])
    starts = [p.start + int(low) for p, low in zip(part, places.min(0), strict=True)]
    ends = [p.start + int(high) + 1 for p, high in zip(part, places.max(0), strict=True)]
    box = ", ".join(f"{a}:{b}" for a, b in zip(starts, ends, strict=True))
    return f"elements [{box}]"
