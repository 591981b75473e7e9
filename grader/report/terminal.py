"""The map of katas, for terminals of any width, with or without colour and Unicode."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from grader.grading import MOST_STARS
from grader.model import Grade, State
from grader.report.standings import Standing, Standings, Track

SIGNS = {State.PASSED: ("✔", "green"), State.FAILED: ("✘", "red"), State.TODO: ("·", "yellow")}
BAR = 14


def encoding_of(reporter: Any) -> str:
    """The encoding of the stream that pytest's terminal reporter writes to."""
    stream = getattr(getattr(reporter, "_tw", None), "_file", None)
    return getattr(stream, "encoding", None) or "ascii"


def map_of(found: Standings, seed: int, verbosity: int = 0) -> RenderableType:
    """Tracks with a bar each, a line a kata, the total, what to do next.

    `seed` is the session's, for commands that bring its cases back. Below a verbosity of -1 (-qq)
    the total alone; above 0 (-v) with cases and seconds.
    """
    parts: list[RenderableType] = []
    if verbosity > -2:
        for track in found.tracks:
            parts += [_title(track), _lines(track, verbosity > 0)]
    parts.append(_total(found))
    if verbosity > -2:
        parts += _notes(found, seed)
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
        if standing.beside_par:
            line.append(f"{standing.beside_par:.2f}× par  ", "dim")
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


def _notes(found: Standings, seed: int) -> list[RenderableType]:
    """What was not asked, and where a star is left to earn."""
    notes: list[RenderableType] = []
    if reason := next((s.unchecked for s in found.all if s.unchecked), ""):
        text = f"not checked: whether the TPU's compiler accepts it, and its time there ({reason})"
        notes.append(Text(text, "yellow"))
    slow = [s for s in found.all if s.state is State.PASSED and s.stars < MOST_STARS]
    if slow:
        command = f"kata cost {slow[0].kata.name} --seed {seed} --case {slow[0].case}"
        notes.append(Text(f"the third star: {command}", "dim"))
    return notes


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
