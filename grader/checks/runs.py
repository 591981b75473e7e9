"""★ Does it import, trace and come to an end?"""

from __future__ import annotations

from grader.checks.advice.exceptions import ADVICE, WITHOUT_KERNEL, Known, advice_for
from grader.checks.evidence import Evidence
from grader.checks.prose import at, paragraph
from grader.model import Accident, Check, Finding, Problem, Stage


def check(evidence: Evidence) -> Finding | None:
    """Reject what did not import, did not trace, did not end, or did not stay in the process."""
    attempt = evidence.attempt
    if isinstance(attempt, Accident):
        return ended(attempt, evidence.file)
    problem = attempt.problem
    if problem is None or problem.stage is Stage.RUN:
        return None
    return raised(problem, evidence.file, ADVICE if evidence.kernel else WITHOUT_KERNEL)


def ended(accident: Accident, file: str) -> Finding:
    """Explain why the process gave no answer. `file` is the learner's, relative to the root."""
    parts = [accident.message]
    if accident.place:
        parts.append(paragraph("line", at(file, accident.place)))
    return Finding(Check.RUNS, accident.phrase, "\n".join(parts))


def raised(problem: Problem, file: str, known: Known = ADVICE) -> Finding:
    """Explain what the learner's code raised."""
    first_line = (problem.message.splitlines() or [""])[0]
    if problem.kind == "SystemExit":
        phrase, what = "calls sys.exit", "SystemExit: the kata tried to end the process"
    elif problem.kind == "NoDebugger":
        phrase, what = "opens a debugger", f"no debugger can be opened: {first_line}"
    elif problem.kind == "Skipped":
        phrase, what = "tries to skip itself", f"a kata cannot be skipped ({first_line})"
    else:
        phrase = f"{problem.kind}: {first_line}"
        what = f"{problem.kind}: {problem.message}"
    tracing = "The launch cannot be traced: it fails before a kernel runs"
    if known is WITHOUT_KERNEL:
        tracing = "It cannot be traced by jit"
    stages = {Stage.IMPORT: "The file cannot be imported", Stage.TRACE: tracing}
    parts = [f"{stages.get(problem.stage, 'It fails')}.", paragraph("error", in_short(what))]
    if problem.place:
        parts.append(paragraph("line", at(file, problem.place)))
    if advice := advice_for(problem, known):
        parts.append(paragraph("try", advice))
    return Finding(Check.RUNS, phrase, "\n".join(parts), problem.traceback)


def in_short(message: str) -> str:
    """The first paragraph of an exception's text, and a word on where the rest is."""
    first, _, rest = message.strip().partition("\n\n")
    return f"{first}\n(the whole text: pytest -vv)" if rest else first
