"""The contract's requirements that differ between katas for TPUs and for GPUs.

- Stars: TPU runs are predicted, GPU runs aren't. Without a GPU a kata for GPUs earns at most two
  stars, and without the extra "gpu" one.
- Memory: other names under `Shapes`, and Refs that are named after their memory.
- Cost: nothing predicts it, so a kata for GPUs isn't on the roofline, and its `after` has the
  command `python -m pallascope.gpu` instead of `kata cost`.
"""

from __future__ import annotations

from dataclasses import dataclass

from grader.checks.gpu_hardware import WITHOUT
from grader.exercise.catalog import Kata
from grader.exercise.targets import GpuTarget
from grader.grading.grader import costs
from grader.verdict import MAX_STARS, Case
from pallascope.gpu import toolchain
from pallascope.gpu.gpus import DEFAULT
from pallascope.model import Check, NotJudged
from pallascope.tpu import compiler

#: The memory that a Ref may be said to lie in.
SPACES = {
    "tpu": {"VMEM", "SMEM", "HBM", "VMEM scratch", "SMEM scratch"},
    "gpu": {"GMEM", "SMEM scratch", "TMEM scratch"},
}
#: How the name of an operand's Ref ends.
OPERANDS = ("_ref", "_gmem")
#: How a command begins that looks at a kernel for GPUs.
GPU_COMMAND = "python -m pallascope.gpu "


@dataclass(frozen=True, slots=True)
class Due:
    """The result of a right solution on one hidden case."""

    stars: int = MAX_STARS
    not_judged: NotJudged | None = None


def target_of(kata: Kata) -> str:
    return kata.key.target.name


def no_compiler(kata: Kata) -> str:
    """Why this machine lacks the compiler that such a kata needs; "" if it has it."""
    return toolchain.why_not() if target_of(kata) == "gpu" else compiler.unavailable_reason()


def due(kata: Kata, case: Case) -> Due:
    """The stars of the solution, as far as this machine can judge."""
    missing = no_compiler(kata)
    if isinstance(target := kata.key.target, GpuTarget):
        if not costs(kata, case):
            return Due()
        if missing:
            return Due(1, NotJudged(Check.COMPILES, missing))
        return Due(2, NotJudged(Check.COST, WITHOUT[target.only_on or DEFAULT]))
    if not missing or not (kata.key.kernel or costs(kata, case)):
        return Due()
    return Due(1, NotJudged(Check.COMPILES if kata.key.kernel else Check.PREDICTIONS, missing))
