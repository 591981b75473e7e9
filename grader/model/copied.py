"""What goes wrong with the copies that a kernel starts by hand, as it was seen while it ran."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from grader.model.places import Place


class Hazard(enum.Enum):
    """What a kernel does before the copy that it depends on is known to have ended."""

    READ_EARLY = "reads where a copy is still arriving"
    SENT_EARLY = "copies on from where another copy is still arriving"
    TWO_AT_ONCE = "starts a copy to where another is still arriving"
    OVERWRITES_ARRIVING = "stores to where a copy is still arriving"
    OVERWRITES_LEAVING = "writes to where a copy is still reading"
    NO_START = "waits for what nothing has started"
    TOO_MANY_BYTES = "waits for more bytes than the copies under way bring"
    NEVER_AWAITED = "ends before its copies have"
    BYTES_LEFT = "waits for fewer bytes than its copies have brought"
    OUTSIDE = "copies what lies outside of a Ref"
    NOTHING_THERE = "reads what nothing has written"


@dataclass(frozen=True, slots=True)
class HandCopy:
    """A copy that a kernel has started. `line` is None where it is not in the learner's file.

    `source` and `target` say which part of which Ref: "x_slots[1]"; `size` is in bytes, and `step`
    the grid step that started it, the `turn`-th time that this line did so. `sharing` other copies
    counted on the same semaphore when something went wrong. `waits` come on it after the start.
    """

    line: Place | None
    source: str
    target: str
    semaphore: str
    size: int
    step: tuple[int, ...]
    turn: int = 1
    sharing: int = 0
    waits: int = 0


@dataclass(frozen=True, slots=True)
class LastWait:
    """The wait that came last: on which semaphore, on which line."""

    semaphore: str
    line: Place | None


@dataclass(frozen=True, slots=True)
class CopyFault:
    """One thing that went wrong, and where: on which line, at which grid step, with which Ref.

    `copy` is the one that had not ended; `another` the one that meets it. Of a wait, `size` bytes
    are waited for on `semaphore`, and those under way bring `coming`; `elsewhere` are the copies
    that are under way on others. At the kernel's end `number` of `started` copies have not been
    waited for. `unread`: what `copy` overwrites had arrived, and nothing had read it. `last_wait`
    is the one that came last, if it was for a copy into the same Ref on another semaphore. `shape`
    is that of the Ref.
    """

    hazard: Hazard
    part: str = ""
    line: Place | None = None
    step: tuple[int, ...] = ()
    turn: int = 1
    copy: HandCopy | None = None
    another: HandCopy | None = None
    semaphore: str = ""
    size: int = 0
    coming: int = 0
    elsewhere: tuple[HandCopy, ...] = ()
    number: int = 0
    started: int = 0
    unread: bool = False
    last_wait: LastWait | None = None
    shape: tuple[int, ...] = ()
