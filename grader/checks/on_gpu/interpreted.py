"""★ Is it right in Mosaic GPU's interpreter, and by more than luck?"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from grader.checks import values
from grader.checks.evidence import Evidence
from grader.checks.on_gpu import lowers
from grader.checks.on_gpu.disorder import disorder_finding
from grader.checks.on_gpu.races import race_finding
from grader.checks.on_gpu.raised import not_interpreted, run_finding
from grader.checks.prose import paragraph
from grader.model import Check, Disorder, Finding, NotJudged, Stage

_PROGRAM_ID = re.compile(r"^[^#]*\bprogram_id\(")


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
    if other:
        return other
    if race:
        return _beside_program_id(race, evidence.lines)
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
    wrong = values.check(evidence)
    return _beside_program_id(wrong, evidence.lines) if wrong else None


def _beside_program_id(finding: Finding, lines: Sequence[str]) -> Finding:
    """A finding, and what it may come from: the interpreter takes each block for the first."""
    asks = next((n for n, line in enumerate(lines, 1) if _PROGRAM_ID.search(line)), 0)
    if not asks:
        return finding
    also = (
        f"Line {asks} asks for pl.program_id, which is 0 in each block here: Mosaic GPU's "
        "interpreter tells a block where it is by lax.axis_index alone, with the name of an axis "
        "of the grid."
    )
    return dataclasses.replace(finding, message=f"{finding.message}\n{paragraph('also', also)}")


def _a_gpu_tells(evidence: Evidence) -> bool:
    """Whether the launch has been run on a GPU, of which another rung speaks: `ran`."""
    run = evidence.ran_on_gpu()
    return run is not None and not run.why_not


def _disorder(evidence: Evidence, kinds: tuple[Disorder, ...]) -> Finding | None:
    faults = [fault for fault in evidence.observed.gpu_faults if fault.disorder in kinds]
    return disorder_finding(faults[0], evidence.file) if faults else None
