"""What `kata watch` says: on a terminal a fresh screen for every save, else line after line."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from grader.grading import MOST_STARS
from grader.model import State
from grader.rendering import show
from grader.report.standings import Standing
from grader.report.terminal import SIGNS, stars

KEYS = {
    "h": "hint",
    "n": "next",
    "r": "rerun",
    "c": "cost",
    "v": "view",
    "q": "quit",
}


def _now() -> datetime.datetime:
    return datetime.datetime.now()


@dataclass(frozen=True, slots=True)
class Screen:
    """Writes to `console`; `fresh` clears it first, `keys` shows what may be pressed."""

    console: Console
    fresh: bool
    keys: bool
    now: Callable[[], datetime.datetime] = _now

    def clear(self) -> None:
        """Begin anew, where that can be done."""
        if self.fresh:
            self.console.clear()

    def note(self, text: str, style: str = "dim") -> None:
        """One line or several, with the time in front."""
        clock = (f"{self.now():%H:%M:%S}  ", "dim")
        show(Text.assemble(clock, (text, style)), self.console)

    def text(self, text: str) -> None:
        """Words that were made elsewhere, as they are."""
        if text.strip():
            self.console.file.write(text.rstrip() + "\n")
            self.console.file.flush()

    def verdict(self, standing: Standing, seconds: float) -> None:
        """A kata's stars, how long they took from the save on, and what is wrong."""
        sign, colour = SIGNS[standing.state]
        line = Text.assemble((f"{self.now():%H:%M:%S}  ", "dim"), (sign, colour), " ")
        line.append_text(stars(standing)).append(f" {standing.kata.name}", "bold")
        line.append(f"  {seconds:.2f} s", "dim")
        if standing.phrase:
            style = "" if standing.state is State.FAILED else "dim"
            line.append(f"  {standing.phrase}", style)
        show(line, self.console)
        if standing.unchecked:
            unchecked = "not checked: whether the TPU's compiler accepts it, and its time there"
            self.note(f"{unchecked} ({standing.unchecked})", "yellow")
        if standing.state is State.PASSED and standing.stars < MOST_STARS:
            self.note(
                f"the third star: {'c, or ' if self.keys else ''}kata cost {standing.kata.name}"
            )

    def bar(self, text: str) -> None:
        """The last line: what may be pressed, and where one is."""
        if not self.keys:
            return
        line = Text("\n")
        for key, word in KEYS.items():
            line.append(key, "bold").append(f" {word}   ")
        show(line.append(text, "dim"), self.console)
