"""The map of katas at the end of a pytest session, for terminals of any width."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from grader.exercise.catalog import name_of
from grader.model import MOST_STARS, State
from grader.record.ledger import Pass
from grader.record.recording import NewPasses
from grader.report import marks
from grader.report.progress_map import COMMIT, some, warned
from grader.report.standings import SessionStandings, Standing, TrackStandings, unasked
from grader.tools.git import NoGit, git_in

SIGNS = {State.PASSED: ("✔", "green"), State.FAILED: ("✘", "red"), State.TODO: ("·", "yellow")}
UNFINISHED = ("~", "yellow")


def encoding_of(reporter: Any) -> str:
    """The encoding of the stream that pytest's terminal reporter writes to."""
    stream = getattr(getattr(reporter, "_tw", None), "_file", None)
    return getattr(stream, "encoding", None) or "ascii"


def session_map(
    standings: SessionStandings, seed: int, verbosity: int = 0, extra: Iterable[RenderableType] = ()
) -> RenderableType:
    """Tracks with a bar each, a line for each kata, the total, `extra`, what to do next.

    `seed` is the session's, for commands that repeat its cases. Below a verbosity of -1 (-qq), only
    the total; above 0 (-v), also cases and seconds.
    """
    parts: list[RenderableType] = []
    if verbosity > -2:
        for track in standings.tracks:
            parts += [_title(track), _lines(track, verbosity > 0)]
    parts.append(_total(standings))
    if verbosity > -2:
        parts += [*_notes(standings, seed), *extra]
    if standings.next and verbosity > -2:
        parts.append(_next(standings.next))
    return Group(*parts)


def _title(track: TrackStandings) -> Text:
    ran = len(track.standings)
    text = marks.track_heading(track.name, track.solved, ran)
    if track.not_run:
        text.append(f", {track.not_run} not run", "dim")
    return text


def _lines(track: TrackStandings, verbose: bool) -> Group:
    width = max(len(standing.kata.name) for standing in track.standings)
    return Group(*(_line(standing, width, verbose) for standing in track.standings))


def _line(standing: Standing, width: int, verbose: bool) -> Text:
    sign, colour = sign_of(standing)
    line = Text("  ", no_wrap=True, overflow="ellipsis")
    line.append(sign, colour).append(f" {standing.kata.number} ", "dim")
    line.append_text(stars_of(standing)).append(f" {standing.kata.name:<{width}}  ")
    if verbose:
        line.append(f"{standing.cases} cases {standing.seconds:5.1f} s  ", "dim")
        if standing.beside_par:
            line.append(f"{standing.beside_par:.2f}× par  ", "dim")
    return line.append(standing.phrase, "" if standing.state is State.FAILED else "dim")


def sign_of(standing: Standing) -> tuple[str, str]:
    """A kata's sign, and its colour; what has passed as far as it was judged is not solved."""
    passed = standing.state is State.PASSED
    return UNFINISHED if passed and not standing.solved else SIGNS[standing.state]


def stars_of(standing: Standing) -> Text:
    """The stars that a kata has, and those that it could have."""
    return marks.star_signs(0 if standing.state is State.TODO else standing.stars)


def _total(standings: SessionStandings) -> Text:
    every = standings.all
    counts = {state: sum(s.state is state for s in every) for state in SIGNS}
    solved, failed, todo = sum(s.solved for s in every), counts[State.FAILED], counts[State.TODO]
    unfinished = sum(s.state is State.PASSED and not s.whole for s in every)
    unjudged = counts[State.PASSED] - solved - unfinished
    others = f", {failed} failed, {todo} todo" + (f", {unfinished} unfinished" * bool(unfinished))
    others += f", {unjudged} not judged" * bool(unjudged)
    earned = sum(s.stars for s in every)
    return marks.total(solved, len(every), others, earned)


def _notes(standings: SessionStandings, seed: int) -> list[RenderableType]:
    """What was not checked, and how to earn a missing third star."""
    notes: list[RenderableType] = []
    for reason, of in unasked(standings).items():
        names = some([standing.kata.name for standing in of])
        notes.append(Text(f"{reason}: no star from there on for {names}", "yellow"))
        if not_solved := without_stars(of):
            notes.append(Text(not_solved, "yellow"))
    notes += [Text(f"note  {note}", "yellow") for s in standings.all for note in s.notes]
    slow = [s for s in standings.all if s.solved and may_earn_the_third(s)]
    if slow:
        command = f"kata cost {slow[0].kata.name} --seed {seed} --case {slow[0].case}"
        notes.append(Text(f"the third star: {command}", "dim"))
    return notes


def without_stars(unjudged: Iterable[Standing]) -> str:
    """Which katas are about what could not be judged; "" for none."""
    passed = [s for s in unjudged if s.state is State.PASSED and s.whole and not s.solved]
    names = some([standing.kata.name for standing in passed])
    return f"not solved, since that is what they are about: {names}" if passed else ""


def may_earn_the_third(standing: Standing) -> bool:
    """Whether a solved kata lacks its third star for its cost, which `kata cost` explains."""
    return standing.state is State.PASSED and standing.stars == MOST_STARS - 1


def _next(standing: Standing) -> Text:
    return marks.next_step(standing.kata, "fix" if standing.state is State.FAILED else "next")


def newly_recorded(recorded: NewPasses, root: Path) -> Iterator[Text]:
    """Which passes are new, and the command that commits them; or why they are not recorded."""
    if not recorded.passes:
        return
    names = some([_name(passed) for passed in recorded.passes])
    if recorded.trouble:
        yield Text(f"not recorded  {names}: {recorded.trouble}", "yellow")
    else:
        yield Text.assemble(("recorded  ", "bold"), f"{names}   {_commit(root)}")
    yield from warned(recorded.warnings)


def _commit(root: Path) -> str:
    try:
        git_in(root)
    except NoGit as error:
        return f"(can't be committed: {error})"
    return COMMIT


def _name(passed: Pass) -> str:
    return f"{name_of(passed.kata)} {marks.star_signs(passed.stars).plain}"
