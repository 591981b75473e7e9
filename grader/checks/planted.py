"""★★★ of a kata that asks for a test: does it tell wrong kernels from right ones?"""

from __future__ import annotations

from grader.checks.evidence import Evidence
from grader.checks.prose import paragraph
from grader.checks.runs import first_paragraph
from grader.model import Check, Finding, Trial, Verdict

#: What sandbox.oracle.LaunchFailed is called as a Problem.
LAUNCH_FAILED = "LaunchFailed"


def check(evidence: Evidence) -> Finding | None:
    """The right kernels must pass the test, and each planted one be rejected."""
    trials = evidence.observed.trials
    refused = [trial for trial in trials if trial.right and trial.verdict is Verdict.REJECTED]
    if refused:
        return _refused(refused[0], evidence.file)
    if not all(trial.calls for trial in trials):
        return _never_called()
    survivors = [t for t in trials if not t.right and t.verdict is Verdict.PASSED]
    return _survived(survivors, trials) if survivors else None


def _refused(trial: Trial, file: str) -> Finding:
    kind = trial.error.partition(":")[0]
    phrase = f"rejects a right kernel: one that {trial.kernel}"
    what = f"The test {phrase}."
    remedy = (
        "A right kernel may add in any order, so its result differs from yours by rounding. Allow "
        "for that."
    )
    if kind == LAUNCH_FAILED:
        phrase, what = "the launch raises", "The launch raises, for a right kernel."
        remedy = "Call it with no other shapes and block sizes than its docstring admits."
    elif kind != AssertionError.__name__:
        phrase = f"{kind} with a right kernel"
        what = "The test raises something else than an AssertionError, for a right kernel."
        remedy = "What the launch returns is an array, as from any other function."
    parts = [what, paragraph("error", first_paragraph(trial.error))]
    if trial.line:
        parts.append(paragraph("line", f"{file}:{trial.line}"))
    return Finding(Check.PLANTED, phrase, "\n".join([*parts, paragraph("try", remedy)]))


def _never_called() -> Finding:
    return Finding(
        Check.PLANTED,
        "never calls the launch",
        "The test has ended without a call of the launch that it is given.\n"
        + paragraph("try", "Call launch(…) like the function that stands in the file."),
    )


def _survived(survivors: list[Trial], trials: tuple[Trial, ...]) -> Finding:
    wrong = sum(not trial.right for trial in trials)
    told = "\n".join(f"It passes for a kernel that {trial.kernel}." for trial in survivors)
    calls = max(trial.calls for trial in survivors)
    often = "once" if calls == 1 else f"{calls} times"
    parts = [
        f"The test does not find {len(survivors)} of {wrong} wrong kernels.",
        paragraph("why", told),
        paragraph("note", f"It has called the launch {often}, and found nothing."),
        paragraph(
            "try",
            "For which sizes and inputs would that kernel return something else than it should, "
            "and by how much?",
        ),
    ]
    phrase = f"passes for a kernel that {survivors[0].kernel}"
    return Finding(Check.PLANTED, phrase, "\n".join(parts))
