"""Katas without a kernel. Are predicted numbers right, and does a test reject wrong kernels?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from grader.checks.evidence import TpuEvidence
from pallascope.checks.exceptions import first_paragraph
from pallascope.checks.phrasing import paragraph
from pallascope.model import (
    QUANTITIES,
    Accident,
    Check,
    Finding,
    MeasuredProgram,
    NotJudged,
    Trial,
    TrialVerdict,
)
from pallascope.tools.arrays import in_float64
from pallascope.tools.text import format_bytes

#: Numbers this close count as the same when a wrong one is recognised.
SAME = 0.02
_BYTES, _FLOPS, _BEST, _SPEEDUP = range(len(QUANTITIES))


def check_predictions(evidence: TpuEvidence) -> Finding | None:
    """Bytes, operations and the time at best, of each program, as far as no compiler is needed."""
    return _judged(evidence, evidence.measured().programs, (_BYTES, _FLOPS, _BEST))


def check_against_xla(evidence: TpuEvidence) -> Finding | NotJudged | None:
    """How much faster than XLA's program a kernel may be, of each program."""
    measured = evidence.baselines()
    if isinstance(measured, Accident):
        return NotJudged(Check.PREDICTIONS, measured.phrase)
    for program in measured.programs:
        if program.baseline and program.baseline.missing:
            return NotJudged(Check.PREDICTIONS, program.baseline.missing)
    return _judged(evidence, measured.programs, (_SPEEDUP,))


def _judged(
    evidence: TpuEvidence, programs: Sequence[MeasuredProgram], columns: Sequence[int]
) -> Finding | None:
    assert evidence.key.predictions
    (answers,) = map(in_float64, evidence.outputs)
    for column in columns:
        for program, row in zip(programs, answers, strict=True):
            given, right = float(row[column]), _right(program, column)
            if not _near(given, right, evidence.key.predictions.within):
                return _finding(program, column, given, right, evidence.key.predictions.within)
    return None


def _right(program: MeasuredProgram, column: int) -> float:
    match column:
        case 0:
            return float(program.bytes)
        case 1:
            return float(program.flops)
        case 2:
            return program.best * 1e6
    return program.speedup


def _near(given: float, right: float, within: float) -> bool:
    return math.isfinite(given) and abs(given - right) <= within * right


def _finding(
    program: MeasuredProgram, column: int, given: float, right: float, within: float
) -> Finding:
    quantity = QUANTITIES[column]
    phrase = f"{program.name}: {quantity} is {_off(given, right, within)}"
    parts = [
        f"{phrase}.",
        paragraph("yours", _in_words(given, column)),
    ]
    why = next((why for number, why in _usual(program, column) if _same(given, number)), "")
    if why:
        parts.append(paragraph("why", f"It is {why}"))
    parts.append(paragraph("try", _ADVICE[column]))
    return Finding(Check.PREDICTIONS, f"{phrase}: {why}" if why else phrase, "\n".join(parts))


def _off(given: float, right: float, within: float) -> str:
    """Too much or too little, and never by how much: that would tell the answer."""
    if not math.isfinite(given):
        return "not a finite number"
    return f"too {'large' if given > right else 'small'} by more than {within:.0%}"


def _same(given: float, number: float) -> bool:
    return number > 0 and math.isfinite(given) and abs(given - number) <= SAME * number


def _in_words(given: float, column: int) -> str:
    if not math.isfinite(given):
        return str(given)
    if column == _BYTES:
        return f"{given:,.0f} ({format_bytes(int(given))})"
    if column == _FLOPS:
        return f"{given:,.0f}"
    return f"{given:.4g}" if column == _SPEEDUP else f"{given:.4g} µs"


def _usual(program: MeasuredProgram, column: int) -> Iterator[tuple[float, str]]:
    """Common wrong numbers, and their meaning."""
    moving, computing = program.bytes / program.bandwidth, program.flops / program.peak
    match column:
        case 0:
            yield program.read, "the bytes that are read, without the write of the result."
            yield program.written, "the bytes that are written, without the reads."
            yield program.elements, "the number of elements, not of bytes."
            yield 8 * program.bytes, "the number of bits."
        case 1:
            yield program.flops / 2, "half of it: a multiply-add counts as two operations."
        case 2:
            other = program.flops / program.other_peak
            yield 1e6 * other, "the time of the operations at the peak of another dtype."
            yield 1e6 * computing, "the time of the operations, but moving the bytes takes longer."
            yield 1e6 * moving, "the time to move the bytes, but the operations take longer."
            yield (
                1e6 * (moving + computing),
                ("the sum of both times: at best, computing and moving bytes go on at once."),
            )
            yield 1e3 * program.best, "in milliseconds."
            yield program.best, "in seconds."
        case _:
            yield 1 / program.speedup, "upside down: above 1 means that a kernel may be faster."
            yield 1.0, "the value if XLA moved no more than a kernel has to."
            if program.baseline:
                yield (
                    program.baseline.bytes / program.bytes,
                    ("the ratio of the bytes, and one side of it is not bound by bytes."),
                )


_ADVICE = {
    _BYTES: "Each input is read once and each result written once, at the sizes that are given.",
    _FLOPS: "Count one for each element of each arithmetic operation, and two for each "
    "multiply-add of a matrix product.",
    _BEST: "The longer of two times: the bytes at HBM's bandwidth, and the operations at the MXU's "
    "peak for the dtype that it multiplies.",
    _SPEEDUP: "Which arrays does XLA's program write to HBM and read again? kata cost shows its "
    "instructions, one after another, with their bytes.",
}


#: The kind of a Problem made from sandbox.oracle.LaunchFailed.
LAUNCH_FAILED = "LaunchFailed"


def check_planted(evidence: TpuEvidence) -> Finding | None:
    """The right kernels must pass the test, and each planted one be rejected."""
    trials = evidence.observed.trials
    refused = [trial for trial in trials if trial.right and trial.verdict is TrialVerdict.REJECTED]
    if refused:
        return _refused(refused[0], evidence.file)
    if not all(trial.calls for trial in trials):
        return _never_called()
    survivors = [t for t in trials if not t.right and t.verdict is TrialVerdict.PASSED]
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
        remedy = "Call it only with shapes and block sizes that its docstring admits."
    elif kind != AssertionError.__name__:
        phrase = f"{kind} with a right kernel"
        what = "The test raises something other than an AssertionError, for a right kernel."
        remedy = "The launch returns an array, like any other function."
    parts = [what, paragraph("error", first_paragraph(trial.error))]
    if trial.line:
        parts.append(paragraph("line", f"{file}:{trial.line}"))
    return Finding(Check.PLANTED, phrase, "\n".join([*parts, paragraph("try", remedy)]))


def _never_called() -> Finding:
    return Finding(
        Check.PLANTED,
        "never calls the launch",
        "The test has ended without calling the launch that it is given.\n"
        + paragraph("try", "Call launch(…) like the function in the file."),
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
            "For which sizes and inputs would that kernel return a wrong result, and by how much?",
        ),
    ]
    phrase = f"passes for a kernel that {survivors[0].kernel}"
    return Finding(Check.PLANTED, phrase, "\n".join(parts))
