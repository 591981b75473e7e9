"""Messages about races and other faults between the devices of a mesh."""

from __future__ import annotations

from collections.abc import Sequence

from grader.checks.phrasing import (
    at,
    listed,
    ordinal,
    paragraph,
)
from grader.checks.surrounding_operations import SPELLINGS
from grader.verdict import Check, Finding
from pallascope.model import DeviceFault, DeviceHazard, Operation

#: The faults that are told of here.
BETWEEN_SLOTS = (
    DeviceHazard.EARLY,
    DeviceHazard.IN_USE,
    DeviceHazard.SHARED,
    DeviceHazard.STILL_SENT,
    DeviceHazard.BOTH_WRITE,
)
_ANY_TIME = "What is used then is a matter of how fast the devices are."


def told_of_slots(fault: DeviceFault) -> tuple[str, str, str, str]:
    """A phrase, what happens, why that is wrong, and what to try."""
    me, other, part, semaphore = fault.device, fault.other, fault.part, fault.semaphore
    match fault.hazard:
        case DeviceHazard.EARLY:
            whose = "its own copy brings" if me == other else f"device {me} copies"
            return (
                f"{part} is used before it has come",
                f"Device {other} uses {part} and need not have waited by then for what {whose} "
                "there.",
                f"A copy that has been started may not have arrived. {_ANY_TIME}",
                f"Before {part} is read or sent on, wait until it has come: "
                + ("wait()" if me == other else "wait_recv() of the copy of the same hop")
                + f", which waits on {semaphore}.",
            )
        case DeviceHazard.IN_USE:
            return (
                f"{part} is overwritten while it may still be read: a credit is missing",
                f"Device {me} copies into {part} of device {other}, where device {other} may still "
                f"be using what an earlier copy has brought. {_credit(fault)}",
                "The sender knows that its own copy has ended. Only the receiver knows when it has "
                "read a slot.",
                "When a slot has been read that will be written again, signal a semaphore of the "
                "device that writes to it, and there wait for that signal before the next copy to "
                "the slot. Or give each hop a slot of its own.",
            )
        case DeviceHazard.SHARED:
            return (
                f"{semaphore} counts more than one copy, and a wait can't tell which has come",
                f"Before device {other} uses {part}, it waits on {semaphore}. {fault.count} copies "
                f"raise that semaphore on it, and the bytes may be those of another one.",
                "A semaphore counts bytes, and copies may arrive in any order. The wait ends "
                "when enough have come, whosever they are.",
                f"Give each hop a semaphore of its own, {semaphore.partition('[')[0]}.at[hop], or "
                "let a slot's semaphore be raised again only after a credit.",
            )
        case DeviceHazard.STILL_SENT:
            return (
                f"{part} is changed while it may still be sent",
                f"Device {me} has started a copy from {part}, and changes {part} before the copy "
                "must have read it.",
                f"A copy reads its source some time after start(). {_ANY_TIME}",
                f"Before {part} is changed, wait until it has left: wait_send() of that copy, "
                f"which waits on {semaphore}.",
            )
    own = fault.why == "own"
    second = f"device {other} itself" if own else "another copy"
    needless = (
        "What a device has already need not be sent to it: is this hop needed? " if own else ""
    )
    return (
        f"{part} is written by two copies at the same time",
        f"Device {me} copies into {part} of device {other}, and so does {second}. Nothing orders "
        "the two.",
        "Copies arrive in any order, and what is left is what the last has brought.",
        f"{needless}Give each sender a place of its own: the target's index has to be made of the "
        "sender's number, as all devices run the same kernel. Where a place is meant to be written "
        "twice, the receiver has to say in between that it has read it.",
    )


def _credit(fault: DeviceFault) -> str:
    """What there is of a credit, and why it does not do."""
    me, other = fault.device, fault.other
    match fault.why.split():
        case ["to", whom] if int(whom) == other:
            return f"Device {other} signals a semaphore of its own, not one of device {me}."
        case ["to", whom]:
            return f"Device {other} signals device {whom}, and not device {me}, which writes."
        case ["early"]:
            return f"Device {other} signals device {me} before it has used {fault.part}."
        case ["not", *_]:
            return f"Device {me} is signalled, and does not wait for that before it copies."
        case ["too", *_]:
            return f"The signal that device {me} has waited for by then may be an earlier one."
    return f"Device {other} never signals that it has used {fault.part}."


def copies_differ(faults: Sequence[DeviceFault], around: Sequence[Operation]) -> Finding | None:
    """Explain that a result which is called replicated is not.

    `around` are the operations outside of the launch's kernels.
    """
    fault = next((one for one in faults if one.hazard is DeviceHazard.COPIES_DIFFER), None)
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


#: A fault is told before those that follow from it.
_ORDER = tuple(DeviceHazard)
_RING = (
    "In a ring, the neighbours of device i of n are jax.lax.rem(i + 1, n) and "
    "jax.lax.rem(i - 1 + n, n): the last device's right neighbour is device 0."
)
_Words = tuple[str, str, str, str]


def devices_finding(faults: Sequence[DeviceFault], file: str) -> Finding | None:
    """Explain the fault that came first, if there is one. `file` is the learner's.

    What `copies_differ` and `one_axis` explain is not among these.
    """
    elsewhere = DeviceHazard.ONE_AXIS, DeviceHazard.COPIES_DIFFER
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
    if fault.hazard is DeviceHazard.DEADLOCK:
        parts.append(paragraph("waits", _waits(fault)))
    parts += [paragraph("why", why), paragraph("try", advice)]
    return Finding(Check.VALUES, phrase, "\n".join(parts))


def _turn(turn: int) -> str:
    """Which of several times that a device comes to a line; not said where it is no copy's."""
    return f"\nfor the {ordinal(turn)} time" if turn else ""


def one_axis(faults: Sequence[DeviceFault]) -> str:
    """Along which axis of a mesh with several all copies went, where they did; else ""."""
    for fault in faults:
        if fault.hazard is DeviceHazard.ONE_AXIS:
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
        case DeviceHazard.NO_SUCH_DEVICE:
            return _no_such_device(fault)
        case DeviceHazard.OUTSIDE:
            name = fault.part.partition("[")[0]
            return (
                f"a copy reaches outside of {name}",
                f"Device {fault.device} copies {fault.part}. {name} has shape "
                f"({', '.join(fault.why.split())}).",
                "A negative index is before the start, it does not count from the end. On a TPU, "
                "such a copy reads or overwrites what lies beside.",
                "Count indices around the ring as well: jax.lax.rem(me + n - hop, n).",
            )
        case DeviceHazard.NO_BARRIER:
            return _no_barrier(fault)
        case DeviceHazard.DEADLOCK:
            return (
                f"all devices wait: one of them on {fault.semaphore}",
                "No device goes on: each waits for another, or has ended.",
                "A wait returns when the semaphore on its own device holds as much as it asks for. "
                "Nothing that still runs would raise one of these.",
                "Count for each device: as many signals have to arrive as it waits for. A copy "
                "raises the receiver's semaphore on the device that it goes to, and the sender's "
                "on its own.",
            )
        case DeviceHazard.NEVER_AWAITED if not fault.remote:
            return (
                f"a copy is never waited for on {fault.semaphore}",
                f"A copy on device {fault.device} itself raises {fault.semaphore}, and nothing "
                "there waits for it.",
                "A copy runs on after start(), and the kernel must not end before it.",
                "Wait for it before the kernel ends, or before what it brings is used: wait().",
            )
        case DeviceHazard.NEVER_AWAITED:
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
