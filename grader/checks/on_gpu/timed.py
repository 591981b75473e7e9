"""★★★ Is it about as fast as the solution, on a GPU that is here?"""

from __future__ import annotations

from grader.checks.evidence import Evidence
from grader.checks.prose import paragraph
from grader.model import Check, Finding, GpuTimes, NotJudged

#: How much longer than the solution a launch may take, by the medians of one run.
SLACK = 0.15
WITHOUT = {
    "h100": "time needs a GPU: a Hopper (H100, H200) or newer, and here is none",
    "b200": "time needs a GPU: a Blackwell (B200), and here is none",
}


def check(evidence: Evidence) -> Finding | NotJudged | None:
    """Compare the medians of runs that were interleaved with the solution's."""
    times = evidence.timed_on_gpu()
    if times is None:
        return NotJudged(Check.COST, WITHOUT.get(evidence.gpu_chip, "time needs a GPU"))
    if times.why_not:
        return NotJudged(Check.COST, times.why_not)
    if times.wrong:
        return Finding(Check.COST, "wrong on the GPU", f"On the GPU itself, {times.wrong}.")
    own, par = times.own.median, times.par.median
    if own <= par * (1 + SLACK):
        return None
    ratio = own / par
    parts = [
        f"It takes {ratio:.2f}× the solution's time on this GPU.",
        paragraph("yours", _spread(times, "own")),
        paragraph("par", _spread(times, "par")),
        paragraph(
            "try",
            "Keep copies under way while the units compute: more slots, a warpgroup that only "
            "copies, larger tiles.",
        ),
    ]
    return Finding(Check.COST, f"{ratio:.2f}× par's time on the GPU", "\n".join(parts))


def _spread(times: GpuTimes, side: str) -> str:
    one = times.own if side == "own" else times.par
    low, mid, high = (f"{1e6 * value:.1f}" for value in (one.lowest, one.median, one.highest))
    return f"{mid} µs, the median of {one.runs} runs ({low} to {high} µs)"
