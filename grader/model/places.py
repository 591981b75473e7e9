"""A line of a learner's file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the learner's file: 1-based number and text."""

    line: int
    text: str
