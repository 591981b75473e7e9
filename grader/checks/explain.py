"""What became of a launch on its way to a chip, in words: nothing here looks at values."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from grader.checks import block_shapes, compiles, lowers, runs
from grader.model import Accident, Check, Finding, Problem, Stage
from grader.tpu import OnChip, Prediction

NO_KERNEL = "no pallas_call"


@dataclass(frozen=True, slots=True)
class Explained:
    """A launch's kernels on one chip. `trouble` is why there are none.

    `refusals` align with the kernels: why the compiler refuses one, None where it takes it.
    """

    kernels: tuple[Prediction, ...] = ()
    trouble: Finding | None = None
    refusals: tuple[Finding | None, ...] = ()


def explain(found: OnChip | Accident, chip: str, file: str) -> Explained:
    """Explain how far a launch came. `file` is the learner's, relative to the root."""
    if isinstance(found, Accident):
        return Explained(trouble=runs.ended(found, file))
    if found.problem:
        return Explained(trouble=refusal(found.problem, file))
    kernels = found.on(chip)
    refused = (compiles.finding_for([one], file) if one.failure else None for one in kernels)
    return Explained(kernels, None, tuple(refused))


def in_full(finding: Finding) -> str:
    """A finding for who has asked for nothing but the chip: its phrase, then the details."""
    if finding.check not in (Check.BLOCKS, Check.LOWERS, Check.COMPILES):
        return finding.message
    _, _, details = finding.message.partition("\n")
    return f"{finding.phrase[0].upper()}{finding.phrase[1:]}.\n{details}"


def refusal(problem: Problem, file: str) -> Finding:
    """Explain what was raised on the way to the chip: blocks first, they are told best."""
    if problem.call and (finding := block_shapes.finding_for([problem.call])):
        return finding
    if problem.kind == "NotLowered":
        return lowers.finding_for(problem, file)
    stage = Stage.TRACE if problem.stage is Stage.LOWER else problem.stage
    return runs.raised(dataclasses.replace(problem, stage=stage), file)
