"""What goes wrong between devices: found while a launch runs on several."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from grader.model.meshes import Axes
from grader.model.places import Place


class Between(enum.Enum):
    """A way in which a kernel on several devices is wrong; one is told before what follows."""

    NO_SUCH_DEVICE = "it names a device that the mesh does not have"
    OUTSIDE = "a copy reaches beyond the end of a buffer"
    NO_BARRIER = "it writes to a device that may not have begun"
    DEADLOCK = "every device waits, or has ended"
    NEVER_AWAITED = "a copy between devices is not waited for"
    LEFT_OVER = "a semaphore is not zero at the end"
    EARLY = "it uses what a copy may not have brought yet"
    IN_USE = "a copy writes where another device may still read"
    SHARED = "a wait for one copy may have counted another"
    STILL_SENT = "it changes what a copy may still be reading"
    BOTH_WRITE = "two copies write the same place"
    ONE_AXIS = "all copies go along the same axis of the mesh"
    COPIES_DIFFER = "devices that should hold the same hold different values"


@dataclass(frozen=True, slots=True)
class DeviceFault:
    """One fault, as it was seen on `device`, which had to do with the device `other`.

    `semaphore` is the one that was waited for, or left with `count`; `waits` says for each device
    that still waits on which semaphore, and `ended` which have ended. `axes` of the `mesh` are
    those along which copies differ. `part` is what is read or written, at the line `use`, by what
    the copy or signal of `line` does not wait for. `why` says which of several reasons it is, in
    words for the check, and `hint` is a line that has to do with it. `turn` counts how often the
    device had come to the copy's line, `use_turn` the same of `use` where that starts a copy as
    well. A copy that is not `remote` stays on its device. Where a number or a name is not known, it
    is -1 or "".
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
    part: str = ""
    use: Place | None = None
    why: str = ""
    hint: Place | None = None
    turn: int = 1
    use_turn: int = 0
    remote: bool = True
    mesh: Axes = ()
    axes: tuple[str, ...] = ()
