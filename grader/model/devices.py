"""What goes wrong between devices: found while a launch runs on several."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from grader.model.places import Place


class Between(enum.Enum):
    """A way in which a kernel on several devices is wrong; one is told before what follows."""

    NO_SUCH_DEVICE = "it names a device that the mesh does not have"
    NO_BARRIER = "it writes to a device that may not have begun"
    DEADLOCK = "every device waits, or has ended"
    NEVER_AWAITED = "a copy between devices is not waited for"
    LEFT_OVER = "a semaphore is not zero at the end"
    COPIES_DIFFER = "devices that should hold the same hold different values"


@dataclass(frozen=True, slots=True)
class DeviceFault:
    """One fault, as it was seen on `device`, which had to do with the device `other`.

    `semaphore` is the one that was waited for, or left with `count`; `waits` says for each device
    that still waits on which semaphore, and `ended` which have ended. Where a number or a name is
    not known, it is -1 or "". `axes` of the mesh are those along which copies differ.
    """

    hazard: Between
    device: int
    other: int = -1
    devices: int = 0
    semaphore: str = ""
    count: int = 0
    line: Place | None = None
    waits: tuple[tuple[int, str], ...] = ()
    ended: tuple[int, ...] = ()
    axes: tuple[str, ...] = ()
