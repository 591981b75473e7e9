"""★★ and ★★★ Is it right, and about as fast as the solution, on the GPU of this machine?

Without a GPU, neither is judged."""

from __future__ import annotations

import dataclasses

from grader.checks.evidence import GpuEvidence
from pallascope.checks import values
from pallascope.checks.phrasing import paragraph
from pallascope.model import Check, Finding, GpuCrash, GpuRun, GpuTimes, NotJudged
from pallascope.tools.arrays import holds_nan

#: How much longer than the solution a launch may take, by the medians of one run.
SLACK = 0.15
WITHOUT = {
    "h100": "time needs a GPU: a Hopper (H100, H200) or newer, and this machine has none",
    "b200": "time needs a GPU: a Blackwell (B200), and this machine has none",
}


def check_gpu_timed(evidence: GpuEvidence) -> Finding | NotJudged | None:
    """Compare the medians of runs that were interleaved with the solution's."""
    times = evidence.timed()
    if times is None:
        return NotJudged(Check.COST, WITHOUT.get(evidence.chips[0], "time needs a GPU"))
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


_BEGINNING = "on the GPU: "
#: For each failure to return that is the kernel's fault: a phrase, the event, and advice.
_CRASHES = {
    GpuCrash.ADDRESS: (
        "reads or writes memory that is not its own",
        "The kernel reads or writes an address at which no buffer lies, and the GPU ends it.",
        "Look at indices that depend on the block and the warpgroup, above all in the last block.",
    ),
    GpuCrash.MISALIGNED: (
        "accesses memory at an unaligned address",
        "The kernel accesses memory at an address that isn't a multiple of the access's size.",
        "Look at offsets into shared memory and slices of Refs: TMA and wgmma want 128 bytes.",
    ),
    GpuCrash.INSTRUCTION: (
        "uses an instruction that the GPU does not have",
        "The kernel uses an instruction that this GPU does not have.",
        "A kernel for another generation? --kata-gpu chooses it.",
    ),
    GpuCrash.LAUNCH: (
        "is ended by the GPU",
        "The GPU ends the kernel: a fault of its hardware, or a trap.",
        "Look at barriers: unexpected arrivals, copies of a size that no wait expects.",
    ),
    GpuCrash.HANG: (
        "does not end",
        "The launch does not end on the GPU, and its process was stopped.",
        "A barrier at which too few arrive, or a wait for a phase that has passed, waits for ever.",
    ),
}


def check_gpu_ran(evidence: GpuEvidence) -> Finding | NotJudged | None:
    """Judge a launch on the GPU; a fault that the solution shows there too doesn't count.

    At production size, its results are compared with the solution's there.
    """
    if evidence.production:
        times = evidence.timed()
        if times is None or not times.wrong:
            return None
        happens = f"At this size, {times.wrong}."
        return _told(times.device, "wrong at production size", happens, "")
    own = evidence.ran()
    if own is None:
        return None
    if own.why_not:
        return NotJudged(Check.VALUES, own.why_not)
    if not (finding := found(evidence, own)):
        return None
    par = evidence.par_ran()
    if par is None or par.why_not:
        return finding
    if fault := found(evidence, par):
        phrase = fault.phrase.removeprefix(_BEGINNING)
        return NotJudged(Check.VALUES, f"on {par.device}, the solution fails too: {phrase}")
    return finding


def found(evidence: GpuEvidence, run: GpuRun) -> Finding | None:
    """Explain the first fault of one run, the learner's or the solution's."""
    if run.crash:
        phrase, happens, advice = _CRASHES[run.crash]
        said = paragraph("driver", run.said) if run.said else ""
        return _told(run.device, phrase, happens, advice, said, _strays(run))
    if run.changed:
        name = evidence.reference.names[run.changed[0]]
        happens = f"{name} has other values after the launch than before: the kernel stores "
        return _told(
            run.device, f"overwrites its input {name}", f"{happens}into it.", "", _strays(run)
        )
    if run.trampled:
        happens = f"The launch changes {run.trampled[0]}, which should keep its pattern."
        advice = "Look at the last block's slices: which element is the last that it may store?"
        return _told(run.device, "stores outside of its buffers", happens, advice, _strays(run))
    if run.strays:
        happens = "compute-sanitizer's memcheck reports an access that is not allowed."
        phrase = "accesses memory that is not its own"
        return _told(run.device, phrase, happens, "", _strays(run))
    return _values(evidence, run)


def _strays(run: GpuRun) -> str:
    return paragraph("seen", f"{run.strays[0]}, by memcheck") if run.strays else ""


def _values(evidence: GpuEvidence, run: GpuRun) -> Finding | None:
    seen = dataclasses.replace(
        evidence.observed, problem=None, outputs=run.outputs, complaints=(), gpu_faults=()
    )
    wrong = values.check(dataclasses.replace(evidence, attempt=seen))
    if wrong is None:
        return None
    parts = [f"On {run.device} itself:", wrong.message]
    if any(map(holds_nan, run.outputs)) and not any(map(holds_nan, evidence.reference.expected)):
        parts.append(paragraph("NaN", "results start as NaN: is this part stored?"))
    phrase = f"{_BEGINNING}{wrong.phrase}"
    return dataclasses.replace(wrong, phrase=phrase, message="\n".join(parts))


def _told(device: str, phrase: str, happens: str, advice: str, *more: str) -> Finding:
    parts = [happens, *filter(None, more), paragraph("GPU", device)]
    if advice:
        parts.append(paragraph("try", advice))
    return Finding(Check.VALUES, f"{_BEGINNING}{phrase}", "\n".join(parts))
