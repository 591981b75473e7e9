"""How far a launch came on its way to a chip, in words; nothing here looks at values."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from grader.checks import block_shapes, compiles, lowers, runs
from grader.model import Accident, Check, Finding, Problem, Stage
from grader.tpu import OnChip, Prediction

NO_KERNEL = "no pallas_call"


@dataclass(frozen=True, slots=True)
class LaunchOutcome:
    """A launch's kernels on one chip. `trouble` says why there are none.

    `refusals` align with the kernels: why the compiler refuses one, None where it accepts it.
    """

    kernels: tuple[Prediction, ...] = ()
    trouble: Finding | None = None
    refusals: tuple[Finding | None, ...] = ()


def outcome_of(on_chip: OnChip | Accident, chip: str, file: str) -> LaunchOutcome:
    """Explain how far a launch came. `file` is the learner's, relative to the root."""
    if isinstance(on_chip, Accident):
        return LaunchOutcome(trouble=runs.accident_finding(on_chip, file))
    if on_chip.problem:
        return LaunchOutcome(trouble=problem_finding(on_chip.problem, file))
    kernels = on_chip.on(chip)
    refusals = (compiles.refused_finding([k], file) if k.failure else None for k in kernels)
    return LaunchOutcome(kernels, None, tuple(refusals))


def in_full(finding: Finding) -> str:
    """A finding where only the chip was asked about: its phrase, then the details."""
    if finding.check not in (Check.BLOCKS, Check.LOWERS, Check.COMPILES):
        return finding.message
    _, _, details = finding.message.partition("\n")
    return f"{finding.phrase[0].upper()}{finding.phrase[1:]}.\n{details}"


def problem_finding(problem: Problem, file: str) -> Finding:
    """Explain what was raised on the way to the chip; by its blocks first, if they are illegal."""
    if problem.call and (finding := block_shapes.blocks_finding([problem.call])):
        return finding
    if problem.kind == "NotLowered":
        return lowers.lowering_finding(problem, file)
    stage = Stage.TRACE if problem.stage is Stage.LOWER else problem.stage
    return runs.raised_finding(dataclasses.replace(problem, stage=stage), file)
