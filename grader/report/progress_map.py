"""The map that `kata progress` shows: every kata as the ledger and its file have it now."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from grader.exercise.catalog import Kata
from grader.model import MOST_STARS
from grader.record.last_commit import last_commit, uncommitted
from grader.record.ledger import Ledger
from grader.record.status import FileState, KataStatus, next_kata
from grader.report import marks
from grader.tools.git import GitError, git_in

SIGNS = {
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
    step = marks.next_step(following.kata, "next") if following else Text(nothing_left(found))
    return Group(_total(found), *notes, step)


def nothing_left(found: Sequence[KataStatus]) -> str:
    """What to do where no kata is next_kata."""
    if gone := next((one for one in found if one.file_state is FileState.GONE), None):
        return f"{gone.kata.name} is {standing(gone)}"
    if not all(one.file_state is FileState.SOLVED for one in found):
        return "Every kata has been edited: pytest -k kata shows which are solved."
    if slow := next((one for one in found if one.stars < MOST_STARS), None):
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
        parts.append(marks.track_heading(name, solved, len(track)))
        parts += [_line(status, width) for status in track]
    parts += [_total(statuses), *notes]
    if following := next_kata(statuses):
        parts.append(marks.next_step(following.kata, "next"))
    return Group(*parts)


def _line(status: KataStatus, width: int) -> Text:
    sign, colour = SIGNS[status.file_state]
    line = Text("  ", no_wrap=True, overflow="ellipsis")
    line.append(sign, colour).append(f" {status.kata.number} ", "dim")
    line.append_text(marks.star_signs(status.stars)).append(f" {status.kata.name:<{width}}  ")
    quiet = status.file_state in (FileState.SOLVED, FileState.TODO)
    return line.append(standing(status), "dim" if quiet else "")


def standing(status: KataStatus) -> str:
    """Where a kata stands, in a few words; for a solved one, the day."""
    last = status.last_pass
    then = f"{marks.star_signs(last.stars).plain} ({last.date})" if last else ""
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


def _total(statuses: Sequence[KataStatus]) -> Text:
    counts = {state: sum(status.file_state is state for status in statuses) for state in FileState}
    solved = counts.pop(FileState.SOLVED)
    others = "".join(f", {count} {state.value}" for state, count in counts.items() if count)
    return marks.total(solved, len(statuses), others, sum(status.stars for status in statuses))


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
