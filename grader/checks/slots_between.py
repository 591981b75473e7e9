"""What is said of memory that copies between devices and others use at the same time."""

from __future__ import annotations

from grader.model import Between, DeviceFault

#: The faults that are told of here.
BETWEEN_SLOTS = (
    Between.EARLY,
    Between.IN_USE,
    Between.SHARED,
    Between.STILL_SENT,
    Between.BOTH_WRITE,
)
_ANY_TIME = "What is used then is a matter of how fast the devices are."


def told_of_slots(fault: DeviceFault) -> tuple[str, str, str, str]:
    """A phrase, what happens, why that is wrong, and what to try."""
    me, other, part, semaphore = fault.device, fault.other, fault.part, fault.semaphore
    match fault.hazard:
        case Between.EARLY:
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
        case Between.IN_USE:
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
        case Between.SHARED:
            return (
                f"{semaphore} counts more than one copy, and a wait can't tell which has come",
                f"Before device {other} uses {part}, it waits on {semaphore}. {fault.count} copies "
                f"raise that semaphore on it, and the bytes may be those of another one.",
                "A semaphore counts bytes, and copies may arrive in any order. The wait ends "
                "when enough have come, whosever they are.",
                f"Give each hop a semaphore of its own, {semaphore.partition('[')[0]}.at[hop], or "
                "let a slot's semaphore be raised again only after a credit.",
            )
        case Between.STILL_SENT:
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
