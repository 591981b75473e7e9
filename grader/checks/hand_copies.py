"""Copies that a kernel starts by hand: what is wrong with their starts and waits."""

from __future__ import annotations

from collections.abc import Sequence

from grader.checks.copy_hazards import words_of
from grader.checks.diagnoses import Diagnosis
from grader.checks.prose import at, ordinal, paragraph
from grader.model import Check, CopyFault, Finding, HandCopy, Hazard, KernelCall
from grader.tpu.units import bytes_of

#: Of kernels whose steps run in any order.
_PARALLEL = (
    "The grid is marked parallel: steps run in any order, and two cores share them, each with "
    "slots and semaphores of its own. A copy that one step starts for another needs dimensions "
    "marked arbitrary."
)


def copies_finding(
    faults: Sequence[CopyFault], file: str, calls: Sequence[KernelCall] = ()
) -> Finding | None:
    """What is wrong with the copies that these kernels start by hand; None where nothing is."""
    sure = [fault for fault in faults if fault.hazard is not Hazard.NOTHING_THERE]
    if not sure:
        return None
    fault = sure[0]
    phrase, happens, why, advice = words_of(fault)
    parts = [happens]
    if fault.line and fault.hazard not in (Hazard.NEVER_AWAITED, Hazard.BYTES_LEFT):
        parts.append(paragraph("line", at(file, fault.line)))
        if when := _when(fault.step, fault.turn):
            parts.append(paragraph("when", when))
    if fault.copy:
        parts.append(paragraph("copy", _copy(fault.copy, file)))
    if any(call.parallel for call in calls):
        parts.append(paragraph("note", _PARALLEL))
    parts += [paragraph("why", why), paragraph("try", advice)]
    return Finding(Check.VALUES, phrase, "\n".join(parts))


def nothing_there(faults: Sequence[CopyFault]) -> Diagnosis | None:
    """Why a result may be garbage: a slot was read before any copy into it was started."""
    hints = [fault for fault in faults if fault.hazard is Hazard.NOTHING_THERE]
    if not hints:
        return None
    fault = hints[0]
    line = f" on line {fault.line.line}" if fault.line else ""
    when = _when(fault.step, fault.turn)
    return Diagnosis(
        f"{fault.part} read before anything was copied there",
        f"{fault.part} is read{line}{f' ({when})' if when else ''}, and until then no copy into "
        "it was started and nothing was stored in it. The copies for the first step have to start "
        "before the loop: that is the prologue of a pipeline.",
        vague=True,
    )


def _copy(copy: HandCopy, file: str) -> str:
    """From where to where, how much, on what, and where it was started."""
    told = (
        f"{copy.source} → {copy.target}, {bytes_of(copy.size)}, on {copy.semaphore}\n"
        f"started at {at(file, copy.line)}"
    )
    if copy.line is None:
        told = told.removesuffix("\nstarted at ")
    when = _when(copy.step, copy.turn)
    return f"{told}\n({when})" if when else told


def _when(step: tuple[int, ...], turn: int) -> str:
    """ "grid step (2, 0)"; "the 3rd time that this line runs"."""
    told = [f"grid step ({', '.join(map(str, step))})"] if step else []
    if turn > 1:
        told.append(f"the {ordinal(turn)} time that this line runs")
    return ", ".join(told)
