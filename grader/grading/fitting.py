"""Whether a kata's launch is made for sizes that someone gave: what the answer key draws only as
multiples of a block size stays one, and the solution's own launch reaches all of its arrays.

At sizes that don't fit, the solution is wrong too, and its cost means nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from grader.checks.outcome import in_full, problem_finding
from grader.exercise.arithmetic import factors
from grader.exercise.catalog import Kata
from grader.exercise.keys import Key
from grader.model import Accident, Case, Operand, Role
from grader.sandbox.asking import Asking, BrokenKata
from grader.tpu.motion import Followed, Motion


def misfit(asking: Asking, kata: Kata, case: Case) -> str:
    """Why the kata's launch is not made for the sizes of a case, as a sentence; "" where it is.

    Raises SandboxError.
    """
    if kata.key.gpu:  # such a kernel cuts its own blocks
        return no_multiple(kata.key, case.sizes)
    return no_multiple(kata.key, case.sizes) or unreached(asking, kata, case)


def no_multiple(key: Key, sizes: Mapping[str, int]) -> str:
    """What a size has to be a multiple of, and is not, as a sentence; "" where all fit."""
    for name, choices in key.choices.items():
        texts = [choice for choice in choices if isinstance(choice, str)]
        if len(texts) < len(choices):
            continue
        common = sorted(frozenset.intersection(*map(factors, texts)))
        unit = math.prod(sizes[factor] for factor in common)
        if common and (sizes[name] % unit or not sizes[name]):
            product = "*".join(common)
            return (
                f"{name} = {sizes[name]} is no multiple of {product} = {unit}, and the launch is "
                f"made for multiples only. Give another {name}, or {' and '.join(common)} too"
            )
    return ""


def unreached(asking: Asking, kata: Kata, case: Case) -> str:
    """Why the solution itself is wrong at the sizes of a case, as a sentence; "" where it is right
    as far as its index maps tell. Raises SandboxError."""
    try:
        followed = asking.follow_par(kata, case, asking.inputs(kata, case))
    except BrokenKata as broken:
        return f"nothing can be computed at these sizes: {_last_line(str(broken))}"
    if isinstance(followed, Accident):
        return ""
    if followed.problem:
        told = in_full(problem_finding(followed.problem, "")).splitlines()
        error = next((line for line in told if line.lstrip().startswith("error")), told[0])
        return f"the solution does not accept these sizes: {' '.join(error.split()[1:])}"
    return next(_left_out(followed), "")


def _left_out(followed: Followed) -> Iterator[str]:
    """Of each operand that the blocks don't cover, what is left out."""
    for motion in followed.kernels:
        if 0 in motion.call.grid:
            grid = "×".join(map(str, motion.call.grid))
            yield f"the solution's grid would be {grid}, without a step: a block is too large"
        for position, operand in enumerate(motion.call.operands):
            for axis, (end, size) in enumerate(_ends(motion, position, operand)):
                block = operand.block[axis] or 1
                # An input may well have blocks that a kernel has no use for, but not a part of one.
                whole = operand.role is Role.OUTPUT and not operand.aliased
                if end < size and (whole or size % block):
                    yield (
                        f"the solution's blocks of {block} reach only {end} of the {size} elements "
                        f"of {operand.name} along dimension {axis}: give a multiple of {block}"
                    )


def _ends(motion: Motion, position: int, operand: Operand) -> list[tuple[int, int]]:
    """For each dimension, where the last block ends, and the size; nothing where it isn't known."""
    path = motion.paths[position]
    if path is None or motion.shown < motion.steps or operand.element:
        return []
    sizes = operand.array.shape
    rank = len(sizes)
    return [
        (max((s + (operand.block[axis] or 1) for s in path.starts[axis::rank]), default=0), size)
        for axis, size in enumerate(sizes)
    ]


def _last_line(text: str) -> str:
    return text.strip().splitlines()[-1].strip()
