"""What is said of faults between the devices of a mesh, and of races between them."""

from __future__ import annotations

from collections.abc import Sequence

from grader.checks.outside import SPELLINGS
from grader.checks.prose import at, listed, paragraph
from grader.model import Between, Check, DeviceFault, Finding, Operation

#: A fault is told before those that follow from it.
_ORDER = tuple(Between)
_RING = (
    "In a ring, the neighbours of device i of n are jax.lax.rem(i + 1, n) and "
    "jax.lax.rem(i - 1 + n, n): the last device's right neighbour is device 0."
)


def devices_finding(faults: Sequence[DeviceFault], file: str) -> Finding | None:
    """Explain the fault that came first, if there is one. `file` is the learner's.

    What `copies_differ` explains is not among these.
    """
    hazards = [one for one in faults if one.hazard is not Between.COPIES_DIFFER]
    if not hazards:
        return None
    fault = min(hazards, key=lambda one: _ORDER.index(one.hazard))
    phrase, happens, why, advice = _words(fault)
    parts = [happens]
    if fault.line:
        parts.append(paragraph("line", at(file, fault.line)))
    if fault.hazard is Between.DEADLOCK:
        parts.append(paragraph("waits", _waits(fault)))
    parts += [paragraph("why", why), paragraph("try", advice)]
    return Finding(Check.VALUES, phrase, "\n".join(parts))


def copies_differ(faults: Sequence[DeviceFault], around: Sequence[Operation]) -> Finding | None:
    """Explain that a result which is called replicated is not.

    `around` are the operations outside of the launch's kernels.
    """
    fault = next((one for one in faults if one.hazard is Between.COPIES_DIFFER), None)
    if fault is None:
        return None
    axes = _named(fault.axes)
    phrase, why, advice = _differing(fault.axes, around)
    parts = [
        f"The copies of the result differ along {axes}: device {fault.device} holds other values "
        f"than device {fault.other}, and out_specs does not name {axes}.",
        paragraph(
            "why",
            "An axis of the mesh that out_specs does not name says that all devices along it hold "
            "the same. With check_vma=False nobody checks that, and each device goes on with its "
            f"own values. {why}",
        ),
        paragraph("try", advice),
    ]
    return Finding(Check.VALUES, phrase, "\n".join(parts))


def _differing(axes: tuple[str, ...], around: Sequence[Operation]) -> tuple[str, str, str]:
    """A phrase, what the launch does along these axes, and what to try."""
    phrase = f"the copies of the result differ along {_named(axes)}"
    adding = [one for one in around if one.axes and one.name != "axis_index"]
    over = [one for one in adding if {*one.axes} & {*axes}]
    if over:
        told = _collective(over[-1])
        return (
            f"{phrase} after {told}",
            f"{told[0].upper()}{told[1:]}{_line(over[-1])} does not make them the same: what comes "
            "after it, or beside it, differs from device to device.",
            "Look for what each device computes from its own part after that, or returns without "
            "it.",
        )
    term = (
        "Does each hold one term of a sum, because in_specs cuts the dimension that is summed over "
        f"along {_named(axes)}? Then add them up: jax.lax.psum(…, {_named(axes)}). Does each hold "
        f"a part of its own? Then let out_specs name {_named(axes)}."
    )
    if adding:
        told = _collective(adding[-1])
        why = f"Here {told}{_line(adding[-1])} is all that goes from one device to another."
        return f"{phrase}, and {told} is over another axis", why, term
    why = f"Nothing in this launch goes from one device to another along {_named(axes)}."
    return f"{phrase}, and nothing adds them up", why, term


def _collective(operation: Operation) -> str:
    name = SPELLINGS.get(operation.name, operation.name)
    return f"{name} over {_named(operation.axes)}"


def _line(operation: Operation) -> str:
    return f", on line {operation.line}," if operation.line else ""


def _named(axes: Sequence[str]) -> str:
    return listed(f'"{axis}"' for axis in axes)


def _words(fault: DeviceFault) -> tuple[str, str, str, str]:
    """A phrase, what happens, why that is wrong, and what to try."""
    match fault.hazard:
        case Between.NO_SUCH_DEVICE:
            last = fault.devices - 1
            return (
                f"there is no device {fault.other}",
                f"Device {fault.device} copies or signals to device {fault.other}. The mesh has "
                f"devices 0 to {last}.",
                "A device's number along an axis of the mesh does not wrap around by itself.",
                _RING,
            )
        case Between.NO_BARRIER:
            return (
                "writes to another device before it is known to have begun",
                f"Device {fault.device} starts a copy to device {fault.other}, and nothing has "
                f"told it that device {fault.other} has begun this kernel.",
                "Devices do not begin a kernel together. Until the other one has begun, the memory "
                "that is written to may still belong to what ran there before. It goes well most "
                "of the time, and here always, as the interpreter has all devices begin first.",
                "Begin with a barrier: signal the barrier semaphore of each device that writes to "
                "this one, and wait for one signal from each device that this one writes to.",
            )
        case Between.DEADLOCK:
            return (
                f"all devices wait: one of them on {fault.semaphore}",
                "No device goes on: each waits for another, or has ended.",
                "A wait returns when the semaphore on its own device holds as much as it asks for. "
                "Nothing that still runs would raise one of these.",
                "Count for each device: as many signals have to arrive as it waits for. A copy "
                "raises the receiver's semaphore on the device that it goes to, and the sender's "
                "on its own.",
            )
        case Between.NEVER_AWAITED:
            return (
                f"a copy between devices is never waited for on {fault.semaphore}",
                f"A copy raises {fault.semaphore} on device {fault.device}, and nothing there "
                "waits for it.",
                "A remote copy runs on after start(). Until the receiver has waited for it, what "
                "it brings may not be there. Until the sender has, its source must not change, and "
                "the kernel must not end.",
                "Wait for both ends before the kernel ends: copy.wait(), or copy.wait_send() and "
                "copy.wait_recv().",
            )
        case Between.LEFT_OVER | Between.COPIES_DIFFER:
            return (
                f"{fault.semaphore} is left non-zero",
                f"At the end of the kernel {fault.semaphore} still holds {fault.count} on device "
                f"{fault.device}.",
                "A semaphore keeps its count when the kernel ends, and the next kernel begins with "
                "it. A DMA semaphore counts bytes: a copy to another device raises one on the "
                "sender when all is read, and one on the receiver when all has arrived.",
                "Wait for as much as was signalled. After a remote copy wait for both ends: "
                "copy.wait() does, copy.wait_send() and copy.wait_recv() do half of it each.",
            )


def _waits(fault: DeviceFault) -> str:
    """Which device waits for what, those that wait for the same together."""
    lines = []
    for semaphore in dict.fromkeys(name for _, name in fault.waits):
        who = [str(device) for device, name in fault.waits if name == semaphore]
        lines.append(f"{_devices(who)} on {semaphore}")
    if fault.ended:
        ended = _devices(list(map(str, fault.ended)))
        lines.append(f"{ended} {'has' if len(fault.ended) == 1 else 'have'} ended")
    return "\n".join(lines)


def _devices(numbers: list[str]) -> str:
    numbers = list(dict.fromkeys(numbers))
    return f"device{'s' * (len(numbers) > 1)} {listed(numbers)}"
