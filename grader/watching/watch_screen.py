"""The screen and the settings of `kata watch`.

On a terminal, every save clears the screen. Otherwise all lines are appended.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console, RenderableType
from rich.text import Text

from grader.report.maps import lacks_third_star, not_solved_message, sign_of, stars_of
from grader.report.session_standings import Standing
from grader.verdict import State
from pallascope.tools.text import show


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of a watch. `only` is as for pytest's -k, "" for all katas.

    `seconds` is the time limit of a hidden case, None for no limit.
    """

    root: Path
    only: str
    seed: int
    chip: str
    seconds: float | None


KEYS = {"h": "hint", "n": "next", "o": "open", "r": "rerun", "c": "cost", "v": "view", "q": "quit"}


BAR_LINES = 2  # lines
#: Moves the cursor to the start of the bar, and clears the rest of the screen.
_ERASE_BAR = f"\x1b[{BAR_LINES}F\x1b[J"


class Screen:
    """Writes to `console`. `fresh`: it can be cleared. `keys`: the bar shows the keys."""

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
        self._bar_shown = False

    def clear(self) -> None:
        """Clear the screen, if it is a terminal."""
        if self._fresh:
            self._console.clear()
            self._bar_shown = False

    def note(self, text: str, style: str = "dim") -> None:
        """Write the time and a text."""
        self.show(Text.assemble(self._clock(), (text, style)))

    def text(self, text: str) -> None:
        """Write a text unchanged."""
        if text.strip():
            self._erase_bar()
            self._console.file.write(text.rstrip() + "\n")
            self._console.file.flush()

    def verdict(self, standing: Standing, seconds: float) -> None:
        """Write a kata's stars, the seconds since the save, and the reason for missing stars."""
        sign, colour = sign_of(standing)
        line = Text(no_wrap=True, overflow="ellipsis")  # the whole text was shown before
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
        """Write the last line: the keys, the kata and the progress."""
        if not self._keys:
            return
        line = Text("\n", no_wrap=True, overflow="ellipsis")
        for key, word in KEYS.items():
            line.append(key, "bold").append(f" {word}   ")
        self.show(line.append(text, "dim"))
        self._bar_shown = True

    def _clock(self) -> tuple[str, str]:
        return f"{self._now():%H:%M:%S}  ", "dim"

    def show(self, line: RenderableType) -> None:
        """Write something above the bar."""
        self._erase_bar()
        show(line, self._console)

    def _erase_bar(self) -> None:
        """Erase the bar, so that new lines don't appear below it."""
        if self._bar_shown and self._fresh:
            self._console.file.write(_ERASE_BAR)
        self._bar_shown = False
