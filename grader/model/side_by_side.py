"""What the chips of a mesh do with each other while a kernel runs, moment by moment, as data."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Act(enum.Enum):
    """What a chip does."""

    SENDS = "sends"
    COPIES = "copies"
    SIGNALS = "signals"
    GETS = "gets"
    WAITS = "waits"
    MULTIPLIES = "multiplies"


@dataclass(frozen=True, slots=True)
class Deed:
    """One chip does something: with `what`, to the chip `to` or to itself, by a semaphore.

    `what` is a Ref's part, and `into` where it goes. `size` is in bytes, of a signal or a wait for
    one its count, and of products the number of operations. `to` is -1 where there is no other.
    """

    act: Act
    what: str = ""
    into: str = ""
    to: int = -1
    semaphore: str = ""
    size: int = 0


@dataclass(frozen=True, slots=True)
class SideBySide:
    """What each of `chips`, their numbers along the axes of a mesh, does at each moment.

    A copy or signal that starts at one moment is there at the next. So a moment is no time: chips
    do at one moment whatever waits for nothing that comes later. `whole`: it is not cut short.
    `stuck`: at the end, chips wait for what never comes.
    """

    chips: tuple[tuple[int, ...], ...]
    moments: tuple[tuple[tuple[Deed, ...], ...], ...]
    whole: bool = True
    stuck: bool = False
