"""What every map of katas is made of: bars, stars, the line that says what to do next."""

from __future__ import annotations

from rich.text import Text

from grader.exercise.catalog import Kata
from grader.model import MOST_STARS

BAR = 14


def bar(part: int, whole: int, width: int = BAR) -> Text:
    """How much of `whole` is reached; a full bar where `whole` is 0."""
    filled = round(width * part / whole) if whole else width
    return Text.assemble(("█" * filled, "green"), ("░" * (width - filled), "dim"))


def track_heading(track: str, solved: int, of: int) -> Text:
    """A track's name, bar and count."""
    return Text.assemble((f"{track}  ", "bold"), bar(solved, of), f"  {solved}/{of} solved")


def star_signs(earned: int) -> Text:
    """The stars that a kata has, and those that it could have."""
    return Text.assemble(("★" * earned, "yellow"), ("☆" * (MOST_STARS - earned), "dim"))


def total(solved: int, of: int, others: str, earned: int) -> Text:
    """The line under a map: how many are solved, what the others are, and the stars of all."""
    return Text.assemble(
        (f"{solved} of {of} solved", "bold"),
        others,
        (f"   {earned} of {MOST_STARS * of} stars", "dim"),
    )


def next_step(kata: Kata, verb: str) -> Text:
    """Which file to work on next, and how to have it graded. `verb` has at most 4 letters."""
    file, line = kata.where()
    # A path is useful only when it is complete.
    return Text(no_wrap=True, overflow="ignore").append_text(
        Text.assemble(
            (f"{verb:<4}  ", "bold"),
            (f"{file}:{line}", "cyan"),
            f"\n      pytest -k {kata.name}\n      stuck?  kata hint {kata.name}",
        )
    )
