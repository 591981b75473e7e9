"""★ Is the work inside a kernel (`pallas_call`, `pl.kernel`), not around it?"""

from __future__ import annotations

from grader.checks import values
from grader.checks.evidence import Evidence
from grader.checks.outside import IN_THE_KERNEL, too_much
from grader.checks.prose import listed, paragraph
from grader.model import Check, Finding

#: What launches a kernel, by whether it is for a GPU.
_LAUNCHES = {False: "pallas_call and no pl.kernel", True: "plgpu.kernel"}


def check(evidence: Evidence) -> Finding | None:
    """Look at the trace: a kernel, nothing but layout around it, and results that come from it."""
    trace = evidence.observed.trace
    if trace is None:
        return None
    if not trace.calls:
        return _finding(
            "no pallas_call",
            f"The trace contains no {_LAUNCHES[evidence.gpu is not None]}: XLA computed the "
            "result, not a kernel.",
        )
    if callbacks := sorted({name for call in trace.calls for name in call.callbacks}):
        return _finding(
            "the kernel calls back to the host",
            f"The kernel contains {listed(callbacks)}: that part runs on the host, and a kernel "
            "on a chip can't call the host.",
        )
    extra = too_much(trace.outside, evidence.outside, evidence.outside_floats, evidence.reference)
    if extra:
        where = f"{evidence.file}:{extra.line}" if extra.line else ""
        advice = IN_THE_KERNEL if evidence.gpu else extra.advice
        return _finding(extra.phrase, extra.reason, where, advice, _also(evidence))
    if not all(trace.from_kernel):
        return _finding(
            "a result does not come from the kernel",
            "There is a kernel, but what is returned does not depend on it.",
        )
    return None


def _also(evidence: Evidence) -> str:
    """What else is wrong, and may be the reason why there is work outside: the values."""
    found = None if evidence.production else values.check(evidence)
    return f"The values are wrong, too: {found.phrase}." if found else ""


def _finding(
    phrase: str, reason: str, where: str = "", advice: str = IN_THE_KERNEL, also: str = ""
) -> Finding:
    parts = [reason, *([paragraph("line", where)] if where else []), paragraph("try", advice)]
    if also:
        parts.append(paragraph("also", also))
    return Finding(Check.PALLAS_USED, phrase, "\n".join(parts))
