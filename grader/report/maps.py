"""The maps of katas in a terminal: of a session, and of the record.

What every map of katas is made of: bars, stars, the line that says what to do next.

The map that `kata progress` shows: every kata as the ledger and its file have it now.

The map of katas at the end of a pytest session, for terminals of any width.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from grader.exercise.catalog import Kata, name_of
from grader.record.commits import last_commit, uncommitted
from grader.record.ledger import Ledger, NewPasses, Pass
from grader.record.status import FileState, KataStatus, next_kata
from grader.report.standings import (
    SessionStandings,
    Standing,
    TrackStandings,
    unasked,
)
from grader.tools.git import GitError, NoGit, git_in
from grader.verdict import MAX_STARS, State

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
    return Text.assemble(("★" * earned, "yellow"), ("☆" * (MAX_STARS - earned), "dim"))


def total(solved: int, of: int, others: str, earned: int) -> Text:
    """The line under a map: how many are solved, what the others are, and the stars of all."""
    return Text.assemble(
        (f"{solved} of {of} solved", "bold"),
        others,
        (f"   {earned} of {MAX_STARS * of} stars", "dim"),
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


PROGRESS_SIGNS = {
    FileState.SOLVED: ("✔", "green"),
    FileState.CHANGED: ("~", "yellow"),
    FileState.EDITED: ("~", "yellow"),
    FileState.TODO: ("·", "yellow"),
    FileState.GONE: ("✘", "red"),
}
COMMIT = "kata commit"
_FEW = 4  # katas that are named in one line


def summary(found: Sequence[KataStatus], notes: Iterable[RenderableType] = ()) -> RenderableType:
    """The total, `notes`, and what to do next."""
    following = next_kata(found)
    step = next_step(following.kata, "next") if following else Text(nothing_left(found))
    return Group(_progress_total(found), *notes, step)


def nothing_left(found: Sequence[KataStatus]) -> str:
    """What to do where no kata is next_kata."""
    if gone := next((one for one in found if one.file_state is FileState.GONE), None):
        return f"{gone.kata.name} is {standing(gone)}"
    if not all(one.file_state is FileState.SOLVED for one in found):
        return "Every kata has been edited: pytest -k kata shows which are solved."
    if slow := next((one for one in found if one.stars < MAX_STARS), None):
        return f"Every kata is solved. For the third star: kata cost {slow.kata.name}"
    return "Every kata is solved, with every star."


def notes(root: Path, ledger: Ledger, found: Sequence[KataStatus]) -> Iterator[Text]:
    """What is wrong with the ledger, and what is not committed."""
    yield from warned(ledger.warnings)
    try:
        git = git_in(root)
        solved = [status for status in found if status.file_state is FileState.SOLVED]
        if solved and (behind := uncommitted(git, solved, ledger, last_commit(git))):
            yield not_committed([one.kata for one in behind])
    except GitError as error:
        yield Text(f"no git here ({error}): no kata commit, no dates of commits", "dim")


def progress_map(
    statuses: Sequence[KataStatus], notes: Iterable[RenderableType] = ()
) -> RenderableType:
    """Tracks with a bar each, a line for each kata, the total, `notes`, what to do next."""
    parts: list[RenderableType] = []
    for name, members in itertools.groupby(statuses, key=lambda status: status.kata.track):
        track = list(members)
        solved = sum(status.file_state is FileState.SOLVED for status in track)
        width = max(len(status.kata.name) for status in track)
        parts.append(track_heading(name, solved, len(track)))
        parts += [_progress_line(status, width) for status in track]
    parts += [_progress_total(statuses), *notes]
    if following := next_kata(statuses):
        parts.append(next_step(following.kata, "next"))
    return Group(*parts)


def _progress_line(status: KataStatus, width: int) -> Text:
    sign, colour = PROGRESS_SIGNS[status.file_state]
    line = Text("  ", no_wrap=True, overflow="ellipsis")
    line.append(sign, colour).append(f" {status.kata.number} ", "dim")
    line.append_text(star_signs(status.stars)).append(f" {status.kata.name:<{width}}  ")
    quiet = status.file_state in (FileState.SOLVED, FileState.TODO)
    return line.append(standing(status), "dim" if quiet else "")


def standing(status: KataStatus) -> str:
    """Where a kata stands, in a few words; for a solved one, the day."""
    last = status.last_pass
    then = f"{star_signs(last.stars).plain} ({last.date})" if last else ""
    match status.file_state:
        case FileState.SOLVED:
            return str(last.date) if last else ""
        case FileState.CHANGED:
            return f"changed since {then}"
        case FileState.EDITED:
            return "edited, not passed yet"
        case FileState.TODO:
            return f"todo again, was {then}" if then else "todo"
        case FileState.GONE:
            return f"gone: kata reset {status.kata.name}"


def _progress_total(statuses: Sequence[KataStatus]) -> Text:
    counts = {state: sum(status.file_state is state for status in statuses) for state in FileState}
    solved = counts.pop(FileState.SOLVED)
    others = "".join(f", {count} {state.value}" for state, count in counts.items() if count)
    return total(solved, len(statuses), others, sum(status.stars for status in statuses))


def not_committed(katas: Sequence[Kata]) -> Text:
    """The solved katas that the last commit lacks, and what commits them."""
    names = some([kata.name for kata in katas])
    return Text(f"not committed  {names}   {COMMIT}", "yellow")


def warned(warnings: Sequence[str]) -> Iterator[Text]:
    """What is wrong with the ledger's lines: the first few warnings, and how many more."""
    for warning in warnings[:_FEW]:
        yield Text(warning, "yellow")
    if rest := warnings[_FEW:]:
        yield Text(f"and {len(rest)} more lines like that", "yellow")


def some(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    named = ", ".join(names[:_FEW])
    rest = len(names) - _FEW
    return f"{named} and {rest} more" if rest > 0 else named


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
    text = track_heading(track.name, track.solved, ran)
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
    return star_signs(0 if standing.state is State.TODO else standing.stars)


def _total(standings: SessionStandings) -> Text:
    every = standings.all
    counts = {state: sum(s.state is state for s in every) for state in SIGNS}
    solved, failed, todo = sum(s.solved for s in every), counts[State.FAILED], counts[State.TODO]
    unfinished = sum(s.state is State.PASSED and not s.whole for s in every)
    unjudged = counts[State.PASSED] - solved - unfinished
    others = f", {failed} failed, {todo} todo" + (f", {unfinished} unfinished" * bool(unfinished))
    others += f", {unjudged} not judged" * bool(unjudged)
    earned = sum(s.stars for s in every)
    return total(solved, len(every), others, earned)


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
    return standing.state is State.PASSED and standing.stars == MAX_STARS - 1


def _next(standing: Standing) -> Text:
    return next_step(standing.kata, "fix" if standing.state is State.FAILED else "next")


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
    return f"{name_of(passed.kata)} {star_signs(passed.stars).plain}"
