"""The maps of katas in a terminal: at the end of a pytest session, and for `kata progress`.

A session's map shows its grades. The map of `kata progress` shows the ledger and the files.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from grader.exercise.catalog import Kata, name_of
from grader.exercise.repository import STATE
from grader.record.commits import last_commit, uncommitted
from grader.record.ledger import Ledger, NewPasses, Pass
from grader.record.status import FileState, KataStatus, next_kata
from grader.report.session_standings import (
    SessionStandings,
    Standing,
    TrackStandings,
    not_judged_reasons,
)
from grader.tools.git import GitError, NoGit, git_in
from grader.verdict import MAX_STARS, State

BAR_WIDTH = 14


def bar(reached: int, whole: int, width: int = BAR_WIDTH) -> Text:
    """A bar that shows how much of `whole` is reached; full if `whole` is 0."""
    filled = round(width * reached / whole) if whole else width
    return Text.assemble(("█" * filled, "green"), ("░" * (width - filled), "dim"))


def track_heading(track: str, solved: int, count: int) -> Text:
    """A track's name, bar and count."""
    return Text.assemble((f"{track}  ", "bold"), bar(solved, count), f"  {solved}/{count} solved")


def star_signs(earned: int) -> Text:
    """Earned stars as ★, missing stars as ☆."""
    return Text.assemble(("★" * earned, "yellow"), ("☆" * (MAX_STARS - earned), "dim"))


def total_line(solved: int, count: int, others: str, earned: int) -> Text:
    """The line below a map: counts of solved and other katas, and all stars."""
    return Text.assemble(
        (f"{solved} of {count} solved", "bold"),
        others,
        (f"   {earned} of {MAX_STARS * count} stars", "dim"),
    )


def next_step(kata: Kata, verb: str) -> Text:
    """The next file to work on, and the command that grades it. `verb` has at most 4 letters."""
    file, line = kata.location()
    # A shortened path would be useless.
    return Text(no_wrap=True, overflow="ignore").append_text(
        Text.assemble(
            (f"{verb:<4}  ", "bold"),
            (f"{file}:{line}", "cyan"),
            f"\n      pytest -k {kata.name}\n      stuck?  kata hint {kata.name}",
        )
    )


def fix_line(kata: Kata) -> Text:
    """Where to fix a failed kata, and the command for a hint."""
    file, line = kata.location()
    return Text(no_wrap=True, overflow="ignore").append_text(
        Text.assemble(
            ("fix   ", "bold"), (f"{file}:{line}", "cyan"), f"   stuck?  kata hint {kata.name}"
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
_MAX_NAMES = 4  # in one line
_MAX_TODO = 3  # lines of katas that are todo, in one track


def progress_summary(
    statuses: Sequence[KataStatus],
    notes: Iterable[RenderableType] = (),
    next_status: KataStatus | None = None,
) -> RenderableType:
    """The total (at the start of the course, the first track), `notes`, and the next step.

    `next_status` is the kata to do next, None for the first that can be done.
    """
    next_status = next_status or next_kata(statuses)
    step = (
        next_step(next_status.kata, "next") if next_status else Text(no_next_kata_message(statuses))
    )
    total = _progress_total(statuses)
    if next_status and all(status.file_state is FileState.TODO for status in statuses):
        track = next_status.kata.track
        total = track_heading(track, 0, sum(s.kata.track == track for s in statuses))
    return Group(total, *notes, step)


def no_next_kata_message(statuses: Sequence[KataStatus]) -> str:
    """The message if `next_kata` finds no kata."""
    if gone := next((status for status in statuses if status.file_state is FileState.GONE), None):
        return f"{gone.kata.name} is {status_text(gone)}"
    if not all(status.file_state is FileState.SOLVED for status in statuses):
        return "Every kata has been edited: pytest -k kata shows which are solved."
    if improvable := next((status for status in statuses if status.stars < MAX_STARS), None):
        return f"Every kata is solved. For the third star: kata cost {improvable.kata.name}"
    return "Every kata is solved, with every star."


def record_notes(root: Path, ledger: Ledger, statuses: Sequence[KataStatus]) -> Iterator[Text]:
    """Warnings about the ledger, and the katas that are not committed."""
    yield from ledger_warnings(ledger.warnings)
    try:
        git = git_in(root)
        solved = [status for status in statuses if status.file_state is FileState.SOLVED]
        if solved and (to_commit := uncommitted(git, solved, ledger, last_commit(git))):
            yield not_committed_line([one.kata for one in to_commit])
    except GitError as error:
        yield Text(f"no git here ({error}): no kata commit, no dates of commits", "dim")


def progress_map(
    statuses: Sequence[KataStatus], notes: Iterable[RenderableType] = ()
) -> RenderableType:
    """A bar for each track, a line for each kata, the total, `notes`, the next step."""
    parts: list[RenderableType] = []
    for name, members in itertools.groupby(statuses, key=lambda status: status.kata.track):
        track = list(members)
        solved = sum(status.file_state is FileState.SOLVED for status in track)
        width = max(len(status.kata.name) for status in track)
        days = len({one.last_pass.date for one in track if one.last_pass})
        on_days = f" on {days} days" if days > 1 else ""
        parts.append(track_heading(name, solved, len(track)).append(on_days, "dim"))
        parts += [_progress_line(status, width) for status in track]
    parts += [_progress_total(statuses), *notes]
    if next_status := next_kata(statuses):
        parts.append(next_step(next_status.kata, "next"))
    return Group(*parts)


def _progress_line(status: KataStatus, width: int) -> Text:
    sign, colour = PROGRESS_SIGNS[status.file_state]
    line = Text("  ", no_wrap=True, overflow="ellipsis")
    line.append(sign, colour).append(f" {status.kata.number} ", "dim")
    line.append_text(star_signs(status.stars)).append(f" {status.kata.name:<{width}}  ")
    quiet = status.file_state in (FileState.SOLVED, FileState.TODO)
    return line.append(status_text(status), "dim" if quiet else "")


def status_text(status: KataStatus) -> str:
    """A kata's status in a few words; the date for a solved kata."""
    last_pass = status.last_pass
    earlier_pass = f"{star_signs(last_pass.stars).plain} ({last_pass.date})" if last_pass else ""
    match status.file_state:
        case FileState.SOLVED:
            return str(last_pass.date) if last_pass else ""
        case FileState.CHANGED:
            return f"changed since {earlier_pass}"
        case FileState.EDITED:
            return "edited, not passed yet"
        case FileState.TODO:
            return f"todo again, was {earlier_pass}" if earlier_pass else "todo"
        case FileState.GONE:
            return f"gone: kata reset {status.kata.name}"


def _progress_total(statuses: Sequence[KataStatus]) -> Text:
    counts = {state: sum(status.file_state is state for status in statuses) for state in FileState}
    solved = counts.pop(FileState.SOLVED)
    others = "".join(f", {count} {state.value}" for state, count in counts.items() if count)
    return total_line(solved, len(statuses), others, sum(status.stars for status in statuses))


def not_committed_line(katas: Sequence[Kata]) -> Text:
    """The solved katas that the last commit lacks, and the command that commits them."""
    names = shorten([kata.name for kata in katas])
    return Text(f"not committed  {names}   {COMMIT}", "yellow")


def ledger_warnings(warnings: Sequence[str]) -> Iterator[Text]:
    """The first few warnings about the ledger's lines, and the number of others."""
    for warning in warnings[:_MAX_NAMES]:
        yield Text(warning, "yellow")
    if remaining := warnings[_MAX_NAMES:]:
        yield Text(f"and {len(remaining)} more lines like that", "yellow")


def shorten(names: Sequence[str]) -> str:
    """The first few names, and the number of others."""
    text = ", ".join(names[:_MAX_NAMES])
    remaining = len(names) - _MAX_NAMES
    return f"{text} and {remaining} more" if remaining > 0 else text


SIGNS = {State.PASSED: ("✔", "green"), State.FAILED: ("✘", "red"), State.TODO: ("·", "yellow")}
UNFINISHED = ("~", "yellow")


def encoding_of(reporter: Any) -> str:
    """The encoding of the stream that pytest's terminal reporter writes to."""
    stream = getattr(getattr(reporter, "_tw", None), "_file", None)
    return getattr(stream, "encoding", None) or "ascii"


def session_map(
    standings: SessionStandings,
    seed: int,
    verbosity: int = 0,
    extra: Iterable[RenderableType] = (),
    explained: Standing | None = None,
) -> RenderableType:
    """A bar for each track, a line for each kata, the total, `extra`, the next step.

    `seed` is for commands that repeat the session's cases. Below a verbosity of -1 (-qq), only the
    total is shown; above 0 (-v), also cases and seconds. `explained` is the failed kata whose
    explanation and next step the caller prints below: its line counts the failed cases instead.
    Except with -v, katas that are todo have a line only if they come first in the next kata's
    track. A run of one kata, or of katas that are all todo, has a total only with -qq.
    """
    parts: list[RenderableType] = []
    verbose = verbosity > 0
    if verbosity > -2:
        collapsed = [] if verbose else _only_todo(standings)
        for track in standings.tracks:
            if track not in collapsed:
                parts += [_title(track), _lines(track, verbose, explained)]
        if collapsed:
            parts.append(_collapsed(collapsed))
    every = standings.all
    if verbosity < -1 or (len(every) > 1 and any(s.state is not State.TODO for s in every)):
        parts.append(_total(standings))
    if verbosity > -2:
        parts += [*_notes(standings, seed), *extra]
    if standings.next and verbosity > -2 and not explained:
        verb = "fix" if standings.next.state is State.FAILED else "next"
        parts.append(next_step(standings.next.kata, verb))
    return Group(*parts)


def _title(track: TrackStandings) -> Text:
    ran = len(track.standings)
    text = track_heading(track.name, track.solved, ran)
    if track.not_run:
        text.append(f", {track.not_run} not run", "dim")
    return text


def _only_todo(standings: SessionStandings) -> list[TrackStandings]:
    """The tracks in which every kata is todo, without the track of the next kata.

    None if they have only a few katas.
    """
    next_track = standings.next.kata.track if standings.next else ""
    tracks = [
        track
        for track in standings.tracks
        if track.name != next_track and all(s.state is State.TODO for s in track.standings)
    ]
    return tracks if sum(len(track.standings) for track in tracks) > _MAX_TODO else []


def _collapsed(tracks: Sequence[TrackStandings]) -> Text:
    count = sum(len(track.standings) for track in tracks)
    names = f"{len(tracks)} more tracks" if len(tracks) > 1 else tracks[0].name
    return Text(f"{names}: {count} katas todo", "dim")


def _lines(track: TrackStandings, verbose: bool, explained: Standing | None) -> Group:
    shown, left_out = list(track.standings), list[Standing]()
    if not verbose:
        todo = [s for s in shown if s.state is State.TODO and not s.regions_done]
        left_out = todo[1:] if len(todo) > _MAX_TODO else []
        shown = [s for s in shown if s not in left_out]
    width = max(len(standing.kata.name) for standing in shown)
    lines = [_line(_counted(s) if s == explained else s, width, verbose) for s in shown]
    if left_out:
        lines.append(Text(f"  · {len(left_out)} more todo", "dim"))
    return Group(*lines)


def _counted(standing: Standing) -> Standing:
    phrase = f"{standing.failed} of {standing.cases} hidden cases failed: explained below"
    return dataclasses.replace(standing, phrase=phrase)


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
    """A kata's sign and its colour. A passed kata that was only partly judged is not solved."""
    passed = standing.state is State.PASSED
    return UNFINISHED if passed and not standing.solved else SIGNS[standing.state]


def stars_of(standing: Standing) -> Text:
    """A kata's stars; none while it is todo."""
    return star_signs(0 if standing.state is State.TODO else standing.stars)


def _total(standings: SessionStandings) -> Text:
    every = standings.all
    counts = {state: sum(s.state is state for s in every) for state in SIGNS}
    solved, failed, todo = sum(s.solved for s in every), counts[State.FAILED], counts[State.TODO]
    unfinished = sum(s.state is State.PASSED and not s.whole for s in every)
    unjudged = counts[State.PASSED] - solved - unfinished
    others = f", {failed} failed, {todo} todo" + (f", {unfinished} unfinished" * bool(unfinished))
    others += f", {unjudged} not judged" * bool(unjudged)
    return total_line(solved, len(every), others, sum(s.stars for s in every))


def _notes(standings: SessionStandings, seed: int) -> list[RenderableType]:
    """Rungs that were not judged, notes, and the command that explains a missing third star."""
    notes: list[RenderableType] = []
    for reason, affected in not_judged_reasons(standings).items():
        names = shorten([standing.kata.name for standing in affected])
        notes.append(Text(f"{reason}: no star from there on for {names}", "yellow"))
        if not_solved := not_solved_message(affected):
            notes.append(Text(not_solved, "yellow"))
    notes += [Text(f"note  {note}", "yellow") for s in standings.all for note in s.notes]
    improvable = [s for s in standings.all if s.solved and lacks_third_star(s)]
    if improvable:
        command = f"kata cost {improvable[0].kata.name} --seed {seed} --case {improvable[0].case}"
        notes.append(Text(f"the third star: {command}", "dim"))
    return notes


def not_solved_message(not_judged: Iterable[Standing]) -> str:
    """The message for katas that aren't solved because their point was not judged; "" for none."""
    passed = [s for s in not_judged if s.state is State.PASSED and s.whole and not s.solved]
    names = shorten([standing.kata.name for standing in passed])
    return f"not solved, because this check is their main point: {names}" if passed else ""


def lacks_third_star(standing: Standing) -> bool:
    """Whether a kata lacks only the third star, the one for cost. `kata cost` explains it."""
    return standing.state is State.PASSED and standing.stars == MAX_STARS - 1


def newly_recorded(new_passes: NewPasses, root: Path) -> Iterator[Text]:
    """The new passes with the command that commits them, or why they are not recorded."""
    if not new_passes.passes:
        return
    names = shorten([_name(new_pass) for new_pass in new_passes.passes])
    if new_passes.trouble:
        yield Text(f"not recorded  {names}: {new_passes.trouble}", "yellow")
    else:
        yield Text.assemble(("recorded  ", "bold"), f"{names}   {_commit(root)}")
    yield from ledger_warnings(new_passes.warnings)


def _commit(root: Path) -> str:
    try:
        git_in(root)
    except NoGit as error:
        # `kata review` copies the line to the learner's ledger, which can be committed.
        is_review = root.parent.name == STATE
        return "" if is_review else f"(can't be committed: {error})"
    return COMMIT


def _name(new_pass: Pass) -> str:
    return f"{name_of(new_pass.kata)} {star_signs(new_pass.stars).plain}"
