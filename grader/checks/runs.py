"""★ Does it import, trace and finish?"""

from __future__ import annotations

from grader.checks.advice.exceptions import (
    EXCEPTION_ADVICE,
    WITHOUT_KERNEL,
    AdviceTable,
    exception_advice,
)
from grader.checks.evidence import Evidence
from grader.checks.prose import at, paragraph
from grader.model import Accident, Check, Finding, Problem, Stage

#: What kernels.NotCarried is called as a Problem.
NOT_CARRIED = "NotCarried"
#: Of an exception in the lines around the regions.
GIVEN = (
    "The line that fails is given code and right as it stands: look at what your line hands to it, "
    "such as blocks, dtypes and arrays in their order."
)


def check(evidence: Evidence) -> Finding | None:
    """Reject what did not import, did not trace, did not end, or did not stay in the process."""
    attempt = evidence.attempt
    if isinstance(attempt, Accident):
        return accident_finding(attempt, evidence.file)
    problem = attempt.problem
    if problem is None or problem.stage is Stage.RUN:
        return None
    if evidence.gpu and problem.stage is Stage.TRACE:
        from grader.checks.on_gpu.traced import trace_finding  # imported for such launches alone

        if found := trace_finding(problem, evidence.file):
            return found
    return raised_finding(
        problem, evidence.file, EXCEPTION_ADVICE if evidence.kernel else WITHOUT_KERNEL
    )


def accident_finding(accident: Accident, file: str) -> Finding:
    """Explain why the process did not answer. `file` is the learner's, relative to the root."""
    parts = [accident.message]
    if accident.place:
        parts.append(paragraph("line", at(file, accident.place)))
    return Finding(Check.RUNS, accident.phrase, "\n".join(parts))


def raised_finding(problem: Problem, file: str, known: AdviceTable = EXCEPTION_ADVICE) -> Finding:
    """Explain what the learner's code raised."""
    if problem.kind == NOT_CARRIED:
        return _not_carried(problem, file)
    first_line = (problem.message.splitlines() or [""])[0]
    if problem.kind == "SystemExit":
        phrase, error = "calls sys.exit", "SystemExit: the kata tried to end the process"
    elif problem.kind == "NoDebugger":
        phrase, error = "opens a debugger", f"no debugger can be opened: {first_line}"
    elif problem.kind == "Skipped":
        phrase, error = "tries to skip itself", f"a kata cannot be skipped ({first_line})"
    elif problem.kind == "NotGraded":
        phrase, error = first_line, problem.message
    else:
        phrase = f"{problem.kind}: {first_line}"
        error = f"{problem.kind}: {problem.message}"
    tracing = "The launch cannot be traced: it fails before a kernel runs"
    if known is WITHOUT_KERNEL:
        tracing = "It cannot be traced by jit"
    importing = "The file cannot be imported"
    if problem.kind == "NotGraded":
        importing = "The file hands over no launch function"
    stages = {Stage.IMPORT: importing, Stage.TRACE: tracing}
    parts = [
        f"{stages.get(problem.stage, 'It fails')}.",
        paragraph("error", first_paragraph(error)),
    ]
    if problem.place:
        parts.append(paragraph("line", at(file, problem.place)))
    if problem.within:
        parts.append(paragraph("from", at(file, problem.within)))
        parts.append(paragraph("note", GIVEN))
    if advice := exception_advice(problem, known):
        parts.append(paragraph("try", advice))
    return Finding(Check.RUNS, phrase, "\n".join(parts), problem.traceback)


def _not_carried(problem: Problem, file: str) -> Finding:
    """A launch whose trace holds what no other process can have."""
    advice = (
        "Build it from jax.numpy, jax.lax and jax.experimental.pallas. A function needs no "
        "Primitive: call it, or give it derivatives with jax.custom_vjp."
    )
    if "pl.debug_check" in problem.message:
        advice = (
            "Take it out: it is checked on a TPU only. Here, print where something is wrong: "
            "pl.debug_print under pl.when(wrong)."
        )
    parts = [
        f"The launch cannot be judged: it holds {problem.message}.",
        *([paragraph("line", at(file, problem.place))] if problem.place else []),
        paragraph(
            "why",
            "A launch is judged by its trace, in a process that knows JAX and nothing of this "
            "file: what the trace holds has to be JAX's own, or plain numbers.",
        ),
        paragraph("try", advice),
    ]
    return Finding(
        Check.RUNS, f"cannot be judged: {problem.message}", "\n".join(parts), problem.traceback
    )


def first_paragraph(message: str) -> str:
    """The first paragraph of an exception's text, and where to find the rest."""
    first, _, rest = message.strip().partition("\n\n")
    return f"{first}\n(the whole text: pytest -vv)" if rest else first
