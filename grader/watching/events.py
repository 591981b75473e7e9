"""What can happen while `kata watch` waits. Each source puts its events into one queue."""

from __future__ import annotations

from dataclasses import dataclass

from grader.exercise.catalog import Kata
from grader.model import Grade


@dataclass(frozen=True, slots=True)
class Saved:
    """A kata's file was written, or is gone."""

    kata: Kata


@dataclass(frozen=True, slots=True)
class Pressed:
    """A key; "" at the end of the input."""

    key: str


@dataclass(frozen=True, slots=True)
class Graded:
    """A hidden case of one run has its grade."""

    run: int
    grade: Grade


@dataclass(frozen=True, slots=True)
class NotGraded:
    """A hidden case of one run could not be graded, and that is not the learner's fault."""

    run: int
    why: str


@dataclass(frozen=True, slots=True)
class Ended:
    """A command beside the watch has ended, and said this."""

    command: int
    code: int
    said: str


@dataclass(frozen=True, slots=True)
class Blind:
    """Saves are no longer seen, or are looked for in another way."""

    why: str


Event = Saved | Pressed | Graded | NotGraded | Ended | Blind
