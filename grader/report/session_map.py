"""The map of katas, for terminals of any width, with or without colour and Unicode."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from grader.exercise.catalog import name_of
from grader.model import MOST_STARS, Grade, State
from grader.record.ledger import Pass
from grader.record.recording import Recorded
from grader.report import marks
from grader.report.progress_map import COMMIT, some, warned
from grader.report.standings import Standing, Standings, Track
from grader.tools.git import NoGit, git_in
from grader.tpu.libtpu import not_checked

SIGNS = {State.PASSED: ("✔", "green"), State.FAILED: ("✘", "red"), State.TODO: ("·", "yellow")}


def encoding_of(reporter: Any) -> str:
    """The encoding of the stream that pytest's terminal reporter writes to."""
    stream = getattr(getattr(reporter, "_tw", None), "_file", None)
    return getattr(stream, "encoding", None) or "ascii"


def map_of(
    found: Standings, seed: int, verbosity: int = 0, more: Iterable[RenderableType] = ()
) -> RenderableType:
    """Tracks with a bar each, a line a kata, the total, `more`, what to do next.

    `seed` is the session's, for commands that bring its cases back. Below a verbosity of -1 (-qq)
    the total alone; above 0 (-v) with cases and seconds.
    """
    parts: list[RenderableType] = []
    if verbosity > -2:
        for track in found.tracks:
            parts += [_title(track), _lines(track, verbosity > 0)]
    parts.append(_total(found))
    if verbosity > -2:
        parts += [*_notes(found, seed), *more]
    if found.next and verbosity > -2:
        parts.append(_next(found.next))
    return Group(*parts)


def _title(track: Track) -> Text:
    ran = len(track.standings)
    text = marks.title(track.name, track.solved, ran)
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
    return marks.stars(0 if standing.state is State.TODO else standing.stars)


def _total(found: Standings) -> Text:
    every = found.all
    counts = {state: sum(s.state is state for s in every) for state in SIGNS}
    solved, failed, todo = counts[State.PASSED], counts[State.FAILED], counts[State.TODO]
    earned = sum(s.stars for s in every)
    return marks.total(solved, len(every), f", {failed} failed, {todo} todo", earned)


def _notes(found: Standings, seed: int) -> list[RenderableType]:
    """What was not asked, and where a star is left to earn."""
    notes: list[RenderableType] = []
    if reason := next((s.unchecked for s in found.all if s.unchecked), ""):
        notes.append(Text(not_checked(reason), "yellow"))
    slow = [s for s in found.all if s.state is State.PASSED and s.stars < MOST_STARS]
    if slow:
        command = f"kata cost {slow[0].kata.name} --seed {seed} --case {slow[0].case}"
        notes.append(Text(f"the third star: {command}", "dim"))
    return notes


def _next(standing: Standing) -> Text:
    return marks.turn_to(standing.kata, "mend" if standing.state is State.FAILED else "next")


def newly_recorded(recorded: Recorded, root: Path) -> Iterator[Text]:
    """Which passes are new, and what commits them; or what kept them out."""
    if not recorded.passes:
        return
    names = some([_name(one) for one in recorded.passes])
    if recorded.trouble:
        yield Text(f"not recorded  {names}: {recorded.trouble}", "yellow")
    else:
        yield Text.assemble(("recorded  ", "bold"), f"{names}   {_commit(root)}")
    yield from warned(recorded.warnings)


def _commit(root: Path) -> str:
    try:
        git_in(root)
    except NoGit as error:
        return f"(no commit of it: {error})"
    return COMMIT


def _name(one: Pass) -> str:
    return f"{name_of(one.kata)} {marks.stars(one.stars).plain}"


def repeated(grade: Grade, earlier: Grade, node: str, seed: int) -> str:
    """A later case that fails the same check, told in two lines."""
    assert grade.finding
    return (
        f"{grade.finding.check.title}: {grade.finding.phrase}   "
        f"(the same check as in hidden{earlier.case})\n"
        f'  again  pytest "{node}" --kata-seed {seed}'
    )
