"""★★ Does jax lower the launch for the GPU? No plugin is needed for that, and no GPU."""

from __future__ import annotations

from grader.checks.evidence import Evidence
from grader.checks.on_gpu import compiled_of
from grader.checks.on_gpu.refused import refused_finding
from grader.checks.outcome import problem_finding
from grader.model import Accident, Check, Finding, NotJudged


def check(evidence: Evidence) -> Finding | NotJudged | None:
    """Look at what jax says of the launch on its way to the GPU."""
    lowered = evidence.own_on_gpu() if evidence.costs else evidence.lowered_for_gpu()
    if isinstance(lowered, Accident):
        return NotJudged(Check.LOWERS, f"jax did not answer: {lowered.phrase}")
    if lowered.problem:
        return problem_finding(lowered.problem, evidence.file)
    compiled = None if lowered.lowered else compiled_of(lowered)
    if compiled and compiled.failure:
        return refused_finding(compiled.failure, lowered, Check.LOWERS)
    return None
