"""Messages about races and other faults between the devices of a mesh."""

from __future__ import annotations

from collections.abc import Sequence

from pallascope.checks.phrasing import (
    SPELLINGS,
    at,
    listed,
    ordinal,
    paragraph,
)
from pallascope.model import Check, DeviceFault, DeviceHazard, Finding, Operation

#: The faults that `told_of_slots` explains.
BETWEEN_SLOTS = (
    DeviceHazard.EARLY,
    DeviceHazard.IN_USE,
    DeviceHazard.SHARED,
    DeviceHazard.STILL_SENT,
    DeviceHazard.BOTH_WRITE,
)
_ANY_TIME = "Which data is used then depends on how fast the devices are."


def told_of_slots(fault: DeviceFault) -> tuple[str, str, str, str]:
    """A phrase, the event, why it is wrong, and a remedy."""
    me, other, part, semaphore = fault.device, fault.other, fault.part, fault.semaphore
    match fault.hazard:
        case DeviceHazard.EARLY:
            whose = "its own copy" if me == other else f"device {me}'s copy"
            return (
                f"{part} is used before it has arrived",
                f"Device {other} uses {part}, but may not have waited by then for {whose} into it.",
                f"A copy that has been started may not have arrived. {_ANY_TIME}",
                f"Before {part} is read or sent on, wait until it has arrived: "
                + ("wait()" if me == other else "wait_recv() of the copy of the same hop")
                + f", which waits on {semaphore}. Or use the part that has arrived.",
            )
        case DeviceHazard.IN_USE:
            return (
                f"{part} is overwritten while it may still be read: a credit is missing",
                f"Device {me} copies into {part} of device {other}, while device {other} may still "
                f"be using the data of an earlier copy. {_credit(fault)}",
                "The sender knows that its own copy has ended. Only the receiver knows when it has "
                "read a slot.",
                "After reading a slot that will be written again, signal a semaphore on the device "
                "that writes to it. That device waits for the signal before its next copy to the "
                "slot. Or give each hop its own slot.",
            )
        case DeviceHazard.SHARED:
            return (
                f"{semaphore} counts more than one copy, and a wait can't tell which has arrived",
                f"Before device {other} uses {part}, it waits on {semaphore}. {fault.count} copies "
                "raise that semaphore, and the bytes may be another copy's.",
                "A semaphore counts bytes, and copies may arrive in any order. The wait ends when "
                "enough have arrived, from whichever copy.",
                f"Give each hop its own semaphore, {semaphore.partition('[')[0]}.at[hop], or let a "
                "slot's semaphore be raised again only after a credit.",
            )
        case DeviceHazard.STILL_SENT:
            return (
                f"{part} is changed while it may still be sent",
                f"Device {me} starts a copy from {part}, and changes {part} before the copy is "
                "sure to have read it.",
                f"A copy reads its source some time after start(). {_ANY_TIME}",
                f"Before you change {part}, wait until it has been sent: wait_send() of that copy, "
                f"which waits on {semaphore}.",
            )
    own = fault.why == "own"
    second = f"device {other} itself" if own else "another copy"
    needless = " Leave the copy out if the device already has this data." if own else ""
    return (
        f"{part} is written by two copies at the same time",
        f"Device {me} copies into {part} of device {other}, and so does {second}. Nothing orders "
        "the two.",
        "Copies arrive in any order, and the last one to arrive stays.",
        "Give each sender its own place: compute the target's index from the sender's number, as "
        "all devices run the same kernel. If a place is meant to be written twice, the "
        f"receiver has to signal in between that it has read it.{needless}",
    )


def _credit(fault: DeviceFault) -> str:
    """The credit that exists, if any, and why it isn't enough."""
    me, other = fault.device, fault.other
    match fault.why.split():
        case ["to", whom] if int(whom) == other:
            return f"Device {other} signals its own semaphore, not one on device {me}."
        case ["to", whom]:
            return f"Device {other} signals device {whom}, and not device {me}, which writes."
        case ["early"]:
            return f"Device {other} signals device {me} before it has used {fault.part}."
        case ["not", *_]:
            return f"Device {me} is signalled, but does not wait for that before it copies."
        case ["too", *_]:
            return f"The signal that device {me} has waited for by then may be an earlier one."
    return f"Device {other} never signals that it has used {fault.part}."


def copies_differ(faults: Sequence[DeviceFault], around: Sequence[Operation]) -> Finding | None:
    """Explain why the copies of a replicated result differ.

    `around` are the operations outside of the launch's kernels.
    """
    fault = next((one for one in faults if one.hazard is DeviceHazard.COPIES_DIFFER), None)
    if fault is None:
        return None
    axes = _named(fault.axes)
    phrase, why, advice = _differing(fault.axes, around)
    parts = [
        f"The copies of the result differ along {axes}: device {fault.device} holds other values "
        f"than device {fault.other}, but out_specs does not name {axes}.",
        paragraph(
            "why",
            "If out_specs does not name an axis of the mesh, all devices along it must hold the "
            "same values. With check_vma=False nobody checks that, and each device goes on with "
            f"its own values. {why}",
        ),
        paragraph("try", advice),
    ]
    return Finding(Check.VALUES, phrase, "\n".join(parts))


def _differing(axes: tuple[str, ...], around: Sequence[Operation]) -> tuple[str, str, str]:
    """A phrase, the launch's work along these axes, and a remedy."""
    phrase = f"the copies of the result differ along {_named(axes)}"
    adding = [one for one in around if one.axes and one.name != "axis_index"]
    over = [one for one in adding if {*one.axes} & {*axes}]
    if over:
        told = _collective(over[-1])
        return (
            f"{phrase} after {told}",
            f"{told[0].upper()}{told[1:]}{_line(over[-1])} does not make them the same: a value "
            "computed after it, or without it, differs from device to device.",
            "Look for a value that each device computes from its own part after that, or returns "
            "without it.",
        )
    term = (
        "Does each hold one term of a sum, because in_specs cuts the summed dimension along "
        f"{_named(axes)}? Then add them up: jax.lax.psum(…, {_named(axes)}). Does each hold a "
        f"different part? Then let out_specs name {_named(axes)}."
    )
    if adding:
        told = _collective(adding[-1])
        why = f"Here {told}{_line(adding[-1])} is the only communication between devices."
        return f"{phrase}, and {told} is over another axis", why, term
    why = f"This launch sends nothing from one device to another along {_named(axes)}."
    return f"{phrase}, and nothing adds them up", why, term


def _collective(operation: Operation) -> str:
    name = SPELLINGS.get(operation.name, operation.name)
    return f"{name} over {_named(operation.axes)}"


def _line(operation: Operation) -> str:
    return f", on line {operation.line}," if operation.line else ""


def _named(axes: Sequence[str]) -> str:
    return listed(f'"{axis}"' for axis in axes)


#: A fault comes before its consequences.
_ORDER = tuple(DeviceHazard)
_RING = (
    "In a ring, the neighbours of device i of n are jax.lax.rem(i + 1, n) and "
    "jax.lax.rem(i - 1 + n, n): the last device's right neighbour is device 0."
)
_Words = tuple[str, str, str, str]


def devices_finding(faults: Sequence[DeviceFault], file: str) -> Finding | None:
    """Explain the fault that came first, if there is one. `file` is the judged one.

    `copies_differ` and `one_axis` explain the other faults.
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
    """How often the device has run the line by then; "" if the line isn't a copy's."""
    return f"\nfor the {ordinal(turn)} time" if turn else ""


def one_axis(faults: Sequence[DeviceFault]) -> str:
    """The only axis of a mesh with several along which copies went; "" if there are more."""
    for fault in faults:
        if fault.hazard is DeviceHazard.ONE_AXIS:
            others = listed([name for name, _ in fault.mesh if name != fault.why])
            return (
                f"all copies go along axis {fault.why} of the mesh, none along {others}. Between "
                "which neighbours is the array cut? device_id holds a number for each axis, in the "
                "mesh's order"
            )
    return ""


def _words(fault: DeviceFault) -> _Words:
    """A phrase, the event, why it is wrong, and a remedy."""
    match fault.hazard:
        case DeviceHazard.NO_SUCH_DEVICE:
            return _no_such_device(fault)
        case DeviceHazard.OUTSIDE:
            name = fault.part.partition("[")[0]
            return (
                f"a copy reaches outside of {name}",
                f"Device {fault.device} copies {fault.part}. {name} has shape "
                f"({', '.join(fault.why.split())}).",
                "A negative index lies before the start; it does not count from the end. On a TPU, "
                "such a copy reads or overwrites the memory next to it.",
                "Wrap indices around the ring as well: jax.lax.rem(me + n - hop, n).",
            )
        case DeviceHazard.NO_BARRIER:
            return _no_barrier(fault)
        case DeviceHazard.DEADLOCK:
            return (
                f"all devices wait: one of them on {fault.semaphore}",
                "No device goes on: each waits for another, or has ended.",
                "A wait returns when the semaphore on its own device holds the requested count. "
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
                "Wait for it before the kernel ends, or before its data is used: wait().",
            )
        case DeviceHazard.NEVER_AWAITED:
            return (
                f"a copy between devices is never waited for on {fault.semaphore}",
                f"A copy raises {fault.semaphore} on device {fault.device}, and nothing there "
                "waits for it.",
                "A remote copy runs on after start(). Until the receiver has waited for it, its "
                "data may not have arrived. Until the sender has, its source must not change, and "
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
        "Wait for as much as was signalled. After a remote copy wait for both ends: copy.wait(), "
        "or copy.wait_send() and copy.wait_recv().",
    )


def _no_such_device(fault: DeviceFault) -> _Words:
    why = "A device's number along an axis of the mesh does not wrap around by itself."
    if fault.why:
        size = dict(fault.mesh)[fault.why]
        return (
            f"axis {fault.why} of the mesh has no device {fault.other}",
            f"{named(fault, fault.device)} copies or signals to number {fault.other} along axis "
            f"{fault.why}. That axis has devices 0 to {size - 1}.",
            f"{why} On a TPU, the number would be taken for a device of another row.",
            f"{_RING} Here n is jax.lax.axis_size({fault.why!r}).",
        )
    return (
        f"the mesh has no device {fault.other}",
        f"Device {fault.device} copies or signals to device {fault.other}. The mesh has "
        f"devices 0 to {fault.devices - 1}.",
        why,
        _RING,
    )


def _no_barrier(fault: DeviceFault) -> _Words:
    me, other = named(fault, fault.device), named(fault, fault.other)
    return (
        "writes to another device before it is known to have begun",
        f"{me} copies or signals to {_inner(other)}, without being sure that {_inner(other)} has "
        f"begun this kernel. {_why_unknown(fault)}",
        "Devices do not begin a kernel together. Until the other one has begun, the target memory "
        "may still belong to the previous program there. It goes well most of the time, and always "
        "here, as the interpreter starts all devices first.",
        "Begin with a barrier: signal the barrier semaphore of each device that writes to "
        "this one, and wait for one signal from each device that this one writes to.",
    )


def _why_unknown(fault: DeviceFault) -> str:
    """The barrier that exists, if any, and why it isn't enough."""
    me, other = (_inner(named(fault, device)) for device in (fault.device, fault.other))
    match fault.why.split():
        case ["nobody", *_]:
            return f"Nobody signals the barrier semaphore of {me}."
        case ["no", *_]:
            return f"The barrier semaphore of {me} is signalled, but not waited for before that."
        case ["signals", "of", *senders]:
            who = listed([_inner(named(fault, int(sender))) for sender in senders])
            return (
                f"The signals that come to the barrier semaphore of {me} are from {who}. None is "
                f"from {other}.{_axes_apart(fault, list(map(int, senders)))}"
            )
        case ["waits", "for", count, "of", coming] if int(count) < int(coming):
            return (
                f"It waits for a count of {count} on its barrier semaphore, but {coming} signals "
                f"arrive: the first may be from devices other than {other}."
            )
    return "Other devices may have raised the semaphore that it waited on."


def _axes_apart(fault: DeviceFault, senders: list[int]) -> str:
    """A note, if signals come along another axis of the mesh than the copy."""
    goes = _along(fault, fault.other)
    comes = {axis for sender in senders for axis in _along(fault, sender)}
    if len(fault.mesh) < 2 or not comes or not goes or comes & goes:
        return ""
    return (
        f" The signals come along axis {listed(sorted(comes))} of the mesh, and the copy goes "
        f"along axis {listed(sorted(goes))}."
    )


def _along(fault: DeviceFault, other: int) -> set[str]:
    """The axes along which a device's position differs from the fault's device."""
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
    """The devices that wait, grouped by semaphore."""
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
