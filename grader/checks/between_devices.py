"""What is said of faults between the devices of a mesh, and of races between them."""

from __future__ import annotations

from collections.abc import Sequence

from grader.checks.prose import at, listed, ordinal, paragraph
from grader.checks.slots_between import BETWEEN_SLOTS, told_of_slots
from grader.model import Between, Check, DeviceFault, Finding

#: A fault is told before those that follow from it.
_ORDER = tuple(Between)
_RING = (
    "In a ring, the neighbours of device i of n are jax.lax.rem(i + 1, n) and "
    "jax.lax.rem(i - 1 + n, n): the last device's right neighbour is device 0."
)
_Words = tuple[str, str, str, str]


def devices_finding(faults: Sequence[DeviceFault], file: str) -> Finding | None:
    """Explain the fault that came first, if there is one. `file` is the learner's.

    What `copies_differ` and `one_axis` explain is not among these.
    """
    elsewhere = Between.ONE_AXIS, Between.COPIES_DIFFER
    faults = [fault for fault in faults if fault.hazard not in elsewhere]
    if not faults:
        return None
    fault = min(faults, key=lambda one: _ORDER.index(one.hazard))
    in_slots = fault.hazard in BETWEEN_SLOTS
    phrase, happens, why, advice = told_of_slots(fault) if in_slots else _words(fault)
    parts = [happens]
    if fault.line:
        where = at(file, fault.line) + (_turn(fault.turn) if in_slots else "")
        parts.append(paragraph("copy" if in_slots else "line", where))
    if fault.use:
        parts.append(paragraph("used", at(file, fault.use) + _turn(fault.use_turn)))
    if fault.hint:
        parts.append(paragraph("and", at(file, fault.hint)))
    if fault.hazard is Between.DEADLOCK:
        parts.append(paragraph("waits", _waits(fault)))
    parts += [paragraph("why", why), paragraph("try", advice)]
    return Finding(Check.VALUES, phrase, "\n".join(parts))


def _turn(turn: int) -> str:
    """Which of several times that a device comes to a line; not said where it is no copy's."""
    return f"\nfor the {ordinal(turn)} time" if turn else ""


def one_axis(faults: Sequence[DeviceFault]) -> str:
    """Along which axis of a mesh with several all copies went, where they did; else ""."""
    for fault in faults:
        if fault.hazard is Between.ONE_AXIS:
            others = listed([name for name, _ in fault.mesh if name != fault.why])
            return (
                f"all copies go along axis {fault.why} of the mesh, none along {others}. Which "
                "neighbours is the array cut between? device_id holds a number for each axis, in "
                "the mesh's order"
            )
    return ""


def _words(fault: DeviceFault) -> _Words:
    """A phrase, what happens, why that is wrong, and what to try."""
    match fault.hazard:
        case Between.NO_SUCH_DEVICE:
            return _no_such_device(fault)
        case Between.OUTSIDE:
            name = fault.part.partition("[")[0]
            return (
                f"a copy reaches outside of {name}",
                f"Device {fault.device} copies {fault.part}. {name} has shape "
                f"({', '.join(fault.why.split())}).",
                "A negative index is before the start, it does not count from the end. On a TPU, "
                "such a copy reads or overwrites what lies beside.",
                "Count indices around the ring as well: jax.lax.rem(me + n - hop, n).",
            )
        case Between.NO_BARRIER:
            return _no_barrier(fault)
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
        case Between.NEVER_AWAITED if not fault.remote:
            return (
                f"a copy is never waited for on {fault.semaphore}",
                f"A copy on device {fault.device} itself raises {fault.semaphore}, and nothing "
                "there waits for it.",
                "A copy runs on after start(), and the kernel must not end before it.",
                "Wait for it before the kernel ends, or before what it brings is used: wait().",
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


def _no_such_device(fault: DeviceFault) -> _Words:
    why = "A device's number along an axis of the mesh does not wrap around by itself."
    if fault.why:
        size = dict(fault.mesh)[fault.why]
        return (
            f"axis {fault.why} of the mesh has no {fault.other}",
            f"{named(fault, fault.device)} copies or signals to number {fault.other} along axis "
            f"{fault.why}. That axis has 0 to {size - 1}.",
            f"{why} On a TPU, the number would be taken for a device of another row.",
            f"{_RING} Here n is jax.lax.axis_size({fault.why!r}).",
        )
    return (
        f"there is no device {fault.other}",
        f"Device {fault.device} copies or signals to device {fault.other}. The mesh has "
        f"devices 0 to {fault.devices - 1}.",
        why,
        _RING,
    )


def _no_barrier(fault: DeviceFault) -> _Words:
    me, other = named(fault, fault.device), named(fault, fault.other)
    return (
        "writes to another device before it is known to have begun",
        f"{me} copies or signals to {_inner(other)}, and need not know by then that "
        f"{_inner(other)} has begun this kernel. {_why_unknown(fault)}",
        "Devices do not begin a kernel together. Until the other one has begun, the memory "
        "that is written to may still belong to what ran there before. It goes well most "
        "of the time, and here always, as the interpreter has all devices begin first.",
        "Begin with a barrier: signal the barrier semaphore of each device that writes to "
        "this one, and wait for one signal from each device that this one writes to.",
    )


def _why_unknown(fault: DeviceFault) -> str:
    """What there is of a barrier, and why it does not tell."""
    me, other = (_inner(named(fault, device)) for device in (fault.device, fault.other))
    match fault.why.split():
        case ["nobody", *_]:
            return f"Nobody signals the barrier semaphore of {me}."
        case ["no", *_]:
            return f"The barrier semaphore of {me} is signalled, and not waited for before that."
        case ["signals", "of", *senders]:
            who = listed([_inner(named(fault, int(sender))) for sender in senders])
            return (
                f"The signals that come to the barrier semaphore of {me} are from {who}. None is "
                f"from {other}.{_axes_apart(fault, list(map(int, senders)))}"
            )
        case ["waits", "for", count, "of", coming] if int(count) < int(coming):
            return (
                f"It waits for {count} on its barrier semaphore, where {coming} come: those that "
                f"have come may be from others than {other}."
            )
    return "What it has waited for may have been raised by others."


def _axes_apart(fault: DeviceFault, senders: list[int]) -> str:
    """Said where signals come along another axis of the mesh than the copy goes."""
    goes = _along(fault, fault.other)
    comes = {axis for sender in senders for axis in _along(fault, sender)}
    if len(fault.mesh) < 2 or not comes or not goes or comes & goes:
        return ""
    return (
        f" The signals come along axis {listed(sorted(comes))} of the mesh, and the copy goes "
        f"along axis {listed(sorted(goes))}."
    )


def _along(fault: DeviceFault, other: int) -> set[str]:
    """The axes along which a device lies elsewhere than the one that the fault is of."""
    found, here = set[str](), fault.device
    for name, size in reversed(fault.mesh):
        if here % size != other % size:
            found.add(name)
        here, other = here // size, other // size
    return found


def named(fault: DeviceFault, device: int) -> str:
    """A device, with its place in a mesh of several axes."""
    if len(fault.mesh) < 2:
        return f"Device {device}"
    place, rest = [], device
    for name, size in reversed(fault.mesh):
        place.append(f"{name}={rest % size}")
        rest //= size
    return f"Device {device} ({', '.join(reversed(place))})"


def _inner(name: str) -> str:
    return name[0].lower() + name[1:]


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
