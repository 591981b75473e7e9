"""The map of katas, for terminals of any width, with or without colour and Unicode."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.text import Text

from grader.grading import MOST_STARS
from grader.model import Grade, State
from grader.report.standings import Standing, Standings, Track

NARROWEST, WIDEST = 40, 120
SIGNS = {State.PASSED: ("✔", "green"), State.FAILED: ("✘", "red"), State.TODO: ("·", "yellow")}
BAR = 14

#: For terminals that can't show them.
_PLAIN = str.maketrans("✔✘·★☆█░×−–…", "+x-*.#.x---")


def encoding_of(reporter: Any) -> str:
    """The encoding of the stream that pytest's terminal reporter writes to."""
    stream = getattr(getattr(reporter, "_tw", None), "_file", None)
    return getattr(stream, "encoding", None) or "ascii"


def rendered(what: RenderableType, width: int, colour: bool, encoding: str = "utf-8") -> str:
    """A renderable as text of the given width, with ANSI colours if asked for."""
    console = Console(
        file=io.StringIO(),
        width=max(NARROWEST, min(width, WIDEST)),
        height=100,  # given too, or rich falls back to 80 columns on a dumb terminal
        force_terminal=colour,
        color_system="standard" if colour else None,
        highlight=False,
        legacy_windows=False,
    )
    with console.capture() as capture:
        console.print(what, crop=False)
    text = "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"
    if encoding.lower().startswith("utf"):
        return text
    return text.translate(_PLAIN).encode(encoding, "replace").decode(encoding)


def map_of(found: Standings, verbosity: int = 0) -> RenderableType:
    """Tracks with a bar each, a line a kata, the total, what to do next.

    Below a verbosity of -1 (-qq) the total alone; above 0 (-v) with cases and seconds.
    """
    parts: list[RenderableType] = []
    if verbosity > -2:
        for track in found.tracks:
            parts += [_title(track), _lines(track, verbosity > 0)]
    parts.append(_total(found))
    if found.next and verbosity > -2:
        parts.append(_next(found.next))
    return Group(*parts)


def _title(track: Track) -> Text:
    ran = len(track.standings)
    filled = round(BAR * track.solved / ran)
    text = Text.assemble(
        (f"{track.name}  ", "bold"),
        ("█" * filled, "green"),
        ("░" * (BAR - filled), "dim"),
        f"  {track.solved}/{ran} solved",
    )
    if track.not_run:
        text.append(f", {track.not_run} not run", "dim")
    return text


def _lines(track: Track, verbose: bool) -> Group:
    width = max(len(standing.kata.name) for standing in track.standings)
    return Group(*(_line(standing, width, verbose) for standing in track.standings))


def _line(standing: Standing, width: int, verbose: bool) -> Text:
    sign, colour = SIGNS[standing.state]
    line = Text("  ", no_wrap=True, overflow="ellipsis")
    line.append(sign, colour).append(f" {standing.kata.number} ", "dim")
    line.append_text(stars(standing)).append(f" {standing.kata.name:<{width}}  ")
    if verbose:
        line.append(f"{standing.cases} cases {standing.seconds:5.1f} s  ", "dim")
    return line.append(standing.phrase, "" if standing.state is State.FAILED else "dim")


def stars(standing: Standing) -> Text:
    """The stars that a kata has, and those that it could have."""
    if standing.state is State.TODO:
        return Text("☆" * MOST_STARS, "dim")
    return Text.assemble(
        ("★" * standing.stars, "yellow"), ("☆" * (MOST_STARS - standing.stars), "dim")
    )


def _total(found: Standings) -> Text:
    every = found.all
    counts = {state: sum(s.state is state for s in every) for state in SIGNS}
    solved, failed, todo = counts[State.PASSED], counts[State.FAILED], counts[State.TODO]
    earned, most = sum(s.stars for s in every), MOST_STARS * len(every)
    return Text.assemble(
        (f"{solved} of {len(every)} solved", "bold"),
        f", {failed} failed, {todo} todo",
        (f"   {earned} of {most} stars", "dim"),
    )


def _next(standing: Standing) -> Text:
    file, line = standing.kata.where()
    name = standing.kata.name
    verb = "mend" if standing.state is State.FAILED else "next"
    # A path is of use only whole.
    return Text(no_wrap=True, overflow="ignore").append_text(
        Text.assemble(
            (f"{verb}  ", "bold"),
            (f"{file}:{line}", "cyan"),
            f"\n      pytest -k {name}\n      stuck?  kata hint {name}",
        )
    )


def repeated(grade: Grade, earlier: Grade, node: str, seed: int) -> str:
    """A later case that fails the same check, told in two lines."""
    assert grade.finding
    return (
        f"{grade.finding.check.title}: {grade.finding.phrase}   "
        f"(the same check as in hidden{earlier.case})\n"
        f'  again  pytest "{node}" --kata-seed {seed}'
    )
