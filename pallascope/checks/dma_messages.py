"""Messages about manual DMA: starts, waits, hazards."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pallascope.checks.diagnoses import Diagnosis
from pallascope.checks.phrasing import at, line, ordinal, paragraph, times
from pallascope.model import (
    Check,
    DmaFault,
    DmaHazard,
    Finding,
    KernelCall,
    ManualCopy,
)
from pallascope.tools.text import format_bytes

#: A phrase, the event, why it is wrong, and a remedy.
Words = tuple[str, str, str, str]
#: For a copy that has not ended when something else touches its source or target.
_ENDS = (
    "A copy runs alongside the kernel from .start() until .wait() has returned. Until then its "
    "target holds the old bytes, the new ones or some of both, and its source must not change."
)


def words_of(fault: DmaFault) -> Words:
    """A phrase, the event, why it is wrong, and a remedy."""
    match fault.hazard:
        case DmaHazard.READ_EARLY | DmaHazard.SENT_EARLY | DmaHazard.NOTHING_THERE:
            return _early(fault)
        case DmaHazard.TWO_AT_ONCE | DmaHazard.OVERWRITES_ARRIVING | DmaHazard.OVERWRITES_LEAVING:
            return _overwritten(fault)
        case DmaHazard.NO_START:
            return _no_start(fault)
        case DmaHazard.OUTSIDE:
            return _outside(fault)
        case DmaHazard.TOO_MANY_BYTES:
            return (
                f"waits for more bytes than {fault.semaphore} gets",
                f"The kernel waits for {format_bytes(fault.size)} on {fault.semaphore}, but the "
                f"copies under way on it bring {format_bytes(fault.coming)}. It would wait for "
                "ever.",
                "A DMA semaphore counts bytes. A wait takes as many as its descriptor's target "
                "has, whichever copy brought them.",
                "Wait with a descriptor of the same size as the one that was started, on the same "
                "semaphore.",
            )
        case DmaHazard.NEVER_AWAITED:
            return _never_awaited(fault)
        case DmaHazard.BYTES_LEFT:
            left = format_bytes(fault.coming)
            return (
                f"{fault.semaphore} is left non-zero: waits for fewer bytes than were copied",
                f"{left} are left on {fault.semaphore} when the kernel ends: its waits take fewer "
                "bytes than its copies bring.",
                "A DMA semaphore counts bytes, and a wait takes as many as its descriptor's target "
                "has. If a copy is larger than that, the wait returns before the copy has ended, "
                "and the leftover count breaks the next kernel.",
                "Wait with descriptors of the same sizes as those that were started.",
            )


def _early(fault: DmaFault) -> Words:
    """Something is read, by the core or by another copy, before it is known to be there."""
    copy, part = fault.copy, fault.part
    assert copy
    read = "read" if fault.hazard is DmaHazard.READ_EARLY else "forwarded"
    happens = f"{part} is {read} while the copy into it may still be under way."
    if fault.hazard is DmaHazard.READ_EARLY and fault.line is None:
        read = "copied out"
        happens = (
            f"{part} is an output block: the pipeline copies it to HBM at the end of the step, "
            "when a copy into it may still be under way."
        )
    if copy.sharing and fault.size:
        return (
            f"{part} is {read} before all copies on {copy.semaphore} have ended",
            happens,
            f"{copy.sharing + 1} copies share {copy.semaphore}, and the kernel waited for "
            f"{format_bytes(fault.size)} of their {format_bytes(fault.size + fault.coming)}. The "
            "semaphore counts bytes and does not say whose: copies end in any order, so you know "
            "that one has ended only after waiting for all of them.",
            "If you wait for copies one by one, give each its own semaphore, such as one for each "
            "slot; or wait for all of them before you use the first.",
        )
    if (last := fault.last_wait) and copy.waits:
        where = f" ({line(last.line)})" if last.line else ""
        return (
            f"{part} is {read} after a wait for another slot",
            happens,
            f"Its copy signals {copy.semaphore}; the wait before was on {last.semaphore}{where}. "
            + _ENDS,
            "Wait with the slot that this step reads: the one that its block was copied into.",
        )
    if fault.unread:
        return (
            f"{part} is overwritten before it is {read}",
            f"{part} held a block that nothing had {read} yet when another copy into it was "
            "started.",
            _ENDS,
            "Prefetch into a slot that this step does not use: with two slots, the next block "
            "goes to 1 - slot.",
        )
    if not copy.waits:
        return (
            f"{part} is {read}, and nothing waits for its copy",
            happens,
            f"No wait on {copy.semaphore} comes after the copy was started. {_ENDS}",
            f"Call .wait() on the same copy, on {copy.semaphore}, before {part} is {read}.",
        )
    return (
        f"{part} is {read} before its copy was waited for",
        happens,
        f"The wait on {copy.semaphore} comes too late: after this. {_ENDS}",
        f"Move the wait before the line where {part} is {read}. Or does it read the wrong slot?",
    )


def _overwritten(fault: DmaFault) -> Words:
    copy, part = fault.copy, fault.part
    assert copy
    if fault.hazard is DmaHazard.TWO_AT_ONCE:
        return (
            f"two copies into {part} are under way at once",
            f"A copy into {part} is started while another copy into it may still be under way.",
            f"Nothing has waited on {copy.semaphore} for the first. Either may end last, so which "
            "data the kernel reads is a matter of luck.",
            "Copies that are under way at the same time need separate slots: wait for a slot's "
            "copy, and read the slot, before you start the next copy into it. If indices choose "
            "the rows to write, no two copies may write the same row.",
        )
    if fault.hazard is DmaHazard.OVERWRITES_ARRIVING:
        return (
            f"{part} is stored to while a copy into it is under way",
            f"The kernel stores to {part} while a copy into it may still be under way.",
            _ENDS,
            f"Wait on {copy.semaphore} before the store, or store elsewhere.",
        )
    by = "another copy into it" if fault.another else "a store"
    if fault.line is None:
        by = "the block of the next step"
    late = (
        f"The next wait on {copy.semaphore} comes too late: after this."
        if copy.waits
        else f"No wait on {copy.semaphore} comes after the copy was started."
    )
    return (
        f"{part} is overwritten while it is being copied",
        f"{part} is overwritten by {by} while the copy from it to {copy.target} may still be under "
        "way: part of the new value may arrive there.",
        f"{late} {_ENDS}",
        f"Before a step writes to {part}, wait for the last copy that was started from it: with "
        "two slots, the copy of two steps ago.",
    )


def _no_start(fault: DmaFault) -> Words:
    if fault.started:
        why = (
            f"The kernel had already waited for all copies started on {fault.semaphore} until then "
            f"({fault.started} in all). "
        )
        advice = "Remove the extra wait, or start the copy that it is meant for."
    else:
        why = f"No copy on {fault.semaphore} had been started before. "
        advice = (
            "Start the first copy before the loop or on the first grid step (the prologue), with "
            "the same slot and semaphore as the wait. If the wait is for a copy that starts later, "
            "wait later."
        )
    if fault.elsewhere:
        others = ", ".join(dict.fromkeys(copy.semaphore for copy in fault.elsewhere))
        why += f"Copies under way at that time signal {others}. "
    again = " again" if fault.started else ""
    return (
        f"waits on {fault.semaphore}, where no copy was started{again}",
        f"The kernel waits for a copy on {fault.semaphore} that nothing has started: on a TPU it "
        "would hang here, for ever.",
        why + "A wait returns once the bytes of some copy that was started have arrived.",
        advice,
    )


def _outside(fault: DmaFault) -> Words:
    part, base, shape = fault.part, _base(fault.part), times(fault.shape)
    return (
        f"a copy of {part} is out of bounds",
        f"The kernel starts a copy of {part}, but {base} has {shape} elements: part of the copy "
        "does not exist.",
        "Pallas doesn't check this on a TPU by itself: the copy would read or overwrite whatever "
        "lies there.",
        _aligned(fault)
        or "Start a copy only for a block that exists: look at its index. If a step starts a later "
        "step's copy, that needs a condition: pl.when(i + 1 < steps).",
    )


def _aligned(fault: DmaFault) -> str:
    """Advice, if a copy goes past the edge because it doesn't begin at a multiple of its size."""
    spans = re.findall(r"[^\[\],]+", fault.part.partition("[")[2])
    for text, whole in zip(spans, fault.shape, strict=False):
        first, _, last = text.strip().partition(":")
        if not (first.isdigit() and last.isdigit()):
            continue
        start, size = int(first), int(last) - int(first)
        if int(last) > whole and start < whole and size > 1 and whole % size == 0:
            return (
                f"{start} isn't a multiple of {size}, the size of the copy. Round it down: "
                f"{start} // {size} * {size}."
            )
    return ""


def _never_awaited(fault: DmaFault) -> Words:
    copy = fault.copy
    assert copy
    target = _base(copy.target)
    why = (
        f"A copy has arrived only after .wait(). The next read of {target} may come too early, and "
        "on a TPU the leftover count lets the next kernel's wait return at once."
    )
    if fault.number == fault.started:
        return (
            f"a copy to {target} is never waited for",
            "The kernel ends, and nothing has waited for a copy that it started: "
            f"{fault.semaphore} is left non-zero.",
            why,
            "Every start needs a wait of the same size on the same semaphore.",
        )
    last = copy.turn > fault.started - fault.number
    return (
        f"{'the last' if last else 'a'} copy to {target} is never waited for",
        f"Of the {fault.started} copies that the line below starts, {_which(fault, last)} never "
        f"waited for: {fault.semaphore} is left non-zero.",
        why,
        "Wait for the copies of the last steps after the loop or on the last grid step: that is "
        "the epilogue of a pipeline.",
    )


def _which(fault: DmaFault, last: bool) -> str:
    """Which of a line's copies nothing has waited for, with its verb."""
    assert fault.copy
    if not last:
        return f"the {ordinal(fault.copy.turn)} is"
    return f"the last {fault.number} are" if fault.number > 1 else "the last is"


def _base(name: str) -> str:
    """A Ref's name without its indices."""
    return name.partition("[")[0]


#: For kernels whose steps run in any order.
_PARALLEL = (
    "The grid is marked parallel: steps run in any order, and two cores share them, each with its "
    "own slots and semaphores. If one step starts a copy for another, mark the dimensions "
    "arbitrary."
)


def copies_finding(
    faults: Sequence[DmaFault], file: str, calls: Sequence[KernelCall] = ()
) -> Finding | None:
    """Explain the first fault in the copies that these kernels start by hand, if any."""
    sure = [fault for fault in faults if fault.hazard is not DmaHazard.NOTHING_THERE]
    if not sure:
        return None
    fault = sure[0]
    phrase, happens, why, advice = words_of(fault)
    parts = [happens]
    if fault.line and fault.hazard not in (DmaHazard.NEVER_AWAITED, DmaHazard.BYTES_LEFT):
        parts.append(paragraph("line", at(file, fault.line)))
        if when := _when(fault.step, fault.turn):
            parts.append(paragraph("when", when))
    if fault.copy:
        parts.append(paragraph("copy", _copy(fault.copy, file)))
    if any(call.parallel for call in calls):
        parts.append(paragraph("note", _PARALLEL))
    parts += [paragraph("why", why), paragraph("try", advice)]
    return Finding(Check.VALUES, phrase, "\n".join(parts))


def nothing_there(faults: Sequence[DmaFault]) -> Diagnosis | None:
    """Why a result may be garbage: a slot was read before any copy into it was started."""
    hints = [fault for fault in faults if fault.hazard is DmaHazard.NOTHING_THERE]
    if not hints:
        return None
    fault = hints[0]
    where = f" on {line(fault.line)}" if fault.line else ""
    when = _when(fault.step, fault.turn)
    return Diagnosis(
        f"{fault.part} read before anything was copied there",
        f"{fault.part} is read{where}{f' ({when})' if when else ''}, but until then no copy into "
        "it was started and nothing was stored in it. If those elements don't count, mask them. "
        "Else start a copy into them before: a pipeline's prologue starts those of its first step.",
        vague=True,
    )


def _copy(copy: ManualCopy, file: str) -> str:
    """The copy's source, target, size and semaphore, and the line that started it."""
    told = (
        f"{copy.source} → {copy.target}, {format_bytes(copy.size)}, on {copy.semaphore}\n"
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
