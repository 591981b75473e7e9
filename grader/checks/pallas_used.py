"""★ Is the work inside a kernel (`pallas_call`, `pl.kernel`), not around it?"""

from __future__ import annotations

from collections import Counter

from grader.checks.evidence import Evidence
from grader.checks.prose import listed, paragraph
from grader.model import Check, Finding


def check(evidence: Evidence) -> Finding | None:
    """Look at the trace: a kernel, nothing but layout around it, and results that come from it."""
    trace = evidence.observed.trace
    if trace is None:
        return None
    if not trace.calls:
        return _finding(
            "no pallas_call",
            "The trace contains no pallas_call and no pl.kernel: XLA computed the result, not a "
            "kernel.",
        )
    if callbacks := sorted({name for call in trace.calls for name in call.callbacks}):
        return _finding(
            "the kernel calls back to the host",
            f"The kernel contains {listed(callbacks)}: that part runs on the host, and a kernel on "
            "a TPU can't call the host.",
        )
    names = (operation.name for operation in trace.outside)
    extra = Counter(name for name in names if name not in evidence.outside)
    if extra:
        names = listed(f"{name} ({n}×)" if n > 1 else name for name, n in extra.items())
        return _finding(
            f"work outside the kernel: {names}",
            f"Some of the work is done outside the kernel: {names}. Each such operation moves "
            "the whole array through HBM once more.\n"
            f"Allowed around this kernel: {listed(evidence.outside, 12) or 'nothing'}.",
        )
    if not all(trace.from_kernel):
        return _finding(
            "a result does not come from the kernel",
            "There is a kernel, but what is returned does not depend on it.",
        )
    return None


def _finding(phrase: str, reason: str) -> Finding:
    advice = "Move the computation into the kernel's body, and return what the kernel returns."
    return Finding(Check.PALLAS_USED, phrase, f"{reason}\n{paragraph('try', advice)}")
