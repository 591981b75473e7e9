"""★ Is it right in Mosaic GPU's interpreter, and by more than luck?"""

from __future__ import annotations

from grader.checks import values
from grader.checks.evidence import Evidence
from grader.checks.on_gpu import lowers
from grader.checks.on_gpu.disorder import disorder_finding
from grader.checks.on_gpu.races import race_finding
from grader.checks.on_gpu.raised import not_interpreted, run_finding
from grader.model import Check, Disorder, Finding, NotJudged, Stage


def check(evidence: Evidence) -> Finding | NotJudged | None:
    """Judge what the trace shows, races, what the interpreter raised, and the values.

    What is told first is what the rest follows from: a wait that never ends, a race, an exception.
    """
    assert evidence.gpu is not None
    observed = evidence.observed
    if finding := _disorder(evidence, (Disorder.NEVER_ARRIVES,)):
        return finding
    problem = evidence.problem
    raised = problem if problem is not None and problem.stage is Stage.RUN else None
    texts = [*observed.complaints, *([raised.message] if raised else [])]
    race = race_finding(texts, evidence.file, evidence.lines)
    other = _disorder(evidence, tuple(Disorder))
    if other or race:
        return other or race
    if evidence.gpu.not_interpreted:
        why = f"{evidence.gpu.not_interpreted}; a GPU would tell"
        return None if _a_gpu_tells(evidence) else NotJudged(Check.VALUES, why)
    if raised and not raised.message.rpartition("AssertionError")[2].strip(": \n"):
        refused = lowers.check(evidence)  # the interpreter asserts some rules without a word
        if isinstance(refused, Finding):
            return refused
    if raised and (unable := not_interpreted(raised)):
        return None if _a_gpu_tells(evidence) else unable
    if raised:
        return run_finding(raised, evidence.file)
    return values.check(evidence)


def _a_gpu_tells(evidence: Evidence) -> bool:
    """Whether the launch has been run on a GPU, of which another rung speaks: `ran`."""
    run = evidence.ran_on_gpu()
    return run is not None and not run.why_not


def _disorder(evidence: Evidence, kinds: tuple[Disorder, ...]) -> Finding | None:
    faults = [fault for fault in evidence.observed.gpu_faults if fault.disorder in kinds]
    return disorder_finding(faults[0], evidence.file) if faults else None
