"""The screen and the settings of `kata watch`.

What holds for the whole of a watch.

What `kata watch` says: on a terminal a fresh screen for every save, else line after line.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console, RenderableType
from rich.text import Text

from grader.report.maps import (
    lacks_third_star,
    not_solved_message,
    sign_of,
    stars_of,
)
from grader.report.standings import Standing
from grader.verdict import State
from pallascope.tools.terminal import show


@dataclass(frozen=True, slots=True)
class Settings:
    """`only` is as for pytest's -k, "" for all katas.

    `seconds` is how long a hidden case may take, None for ever.
    """

    root: Path
    only: str
    seed: int
    chip: str
    seconds: float | None


KEYS = {
    "h": "hint",
    "n": "next",
    "o": "open",
    "r": "rerun",
    "c": "cost",
    "v": "view",
    "q": "quit",
}


BAR = 2  # lines
#: To the beginning of the bar, and from there nothing.
_UP = f"\x1b[{BAR}F\x1b[J"


class Screen:
    """Writes to `console`; `fresh` clears it first, `keys` shows what may be pressed."""

    def __init__(
        self,
        console: Console,
        fresh: bool,
        keys: bool,
        now: Callable[[], datetime.datetime] = datetime.datetime.now,
    ) -> None:
        self._console = console
        self._fresh = fresh
        self._keys = keys
        self._now = now
        self._barred = False  # the last two lines are the bar's

    def clear(self) -> None:
        """Begin anew, where that can be done."""
        if self._fresh:
            self._console.clear()
            self._barred = False

    def note(self, text: str, style: str = "dim") -> None:
        """One line or several, with the time in front."""
        self.show(Text.assemble(self._clock(), (text, style)))

    def text(self, text: str) -> None:
        """Words that were made elsewhere, as they are."""
        if text.strip():
            self._unbar()
            self._console.file.write(text.rstrip() + "\n")
            self._console.file.flush()

    def verdict(self, standing: Standing, seconds: float) -> None:
        """A kata's stars, how long they took from the save on, and what is wrong."""
        sign, colour = sign_of(standing)
        line = Text(no_wrap=True, overflow="ellipsis")  # what is cut has been said in full
        line.append(*self._clock()).append(sign, colour).append(" ")
        line.append_text(stars_of(standing)).append(f" {standing.kata.name}", "bold")
        line.append(f"  {seconds:.2f} s", "dim")
        if standing.phrase:
            style = "" if standing.state is State.FAILED else "dim"
            line.append(f"  {standing.phrase}", style)
        self.show(line)
        if standing.not_judged:
            self.note(f"{standing.not_judged}: no star from there on", "yellow")
            if not_solved := not_solved_message([standing]):
                self.note(not_solved, "yellow")
        for note in standing.notes:
            self.note(f"note  {note}", "yellow")
        if lacks_third_star(standing):
            key = "c, or " if self._keys else ""
            self.note(f"the third star: {key}kata cost {standing.kata.name}")

    def bar(self, text: str) -> None:
        """The last line: what may be pressed, and where one is."""
        if not self._keys:
            return
        line = Text("\n", no_wrap=True, overflow="ellipsis")
        for key, word in KEYS.items():
            line.append(key, "bold").append(f" {word}   ")
        self.show(line.append(text, "dim"))
        self._barred = True

    def _clock(self) -> tuple[str, str]:
        return f"{self._now():%H:%M:%S}  ", "dim"

    def show(self, line: RenderableType) -> None:
        """Something drawn, above the bar."""
        self._unbar()
        show(line, self._console)

    def _unbar(self) -> None:
        """Take the bar away, so that it stands below whatever comes."""
        if self._barred and self._fresh:
            self._console.file.write(_UP)
        self._barred = False
