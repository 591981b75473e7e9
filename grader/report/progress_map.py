"""The map of katas as they are remembered, for terminals."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from grader.exercise.catalog import Kata
from grader.model import MOST_STARS
from grader.record.head import head, uncommitted
from grader.record.ledger import Ledger
from grader.record.status import Known, Present, upcoming
from grader.report import marks
from grader.tools.git import GitError, git_in

SIGNS = {
    Known.SOLVED: ("✔", "green"),
    Known.CHANGED: ("~", "yellow"),
    Known.EDITED: ("~", "yellow"),
    Known.TODO: ("·", "yellow"),
    Known.GONE: ("✘", "red"),
}
COMMIT = "kata commit"
_FEW = 4  # katas that are named in one line


def summary(found: Sequence[Present], notes: Iterable[RenderableType] = ()) -> RenderableType:
    """The total, `notes`, and what to do next."""
    following = upcoming(found)
    step = marks.turn_to(following.kata, "next") if following else Text(nothing_left(found))
    return Group(_total(found), *notes, step)


def nothing_left(found: Sequence[Present]) -> str:
    """What to do where no kata is upcoming."""
    if gone := next((one for one in found if one.known is Known.GONE), None):
        return f"{gone.kata.name} is {standing(gone)}"
    if not all(one.known is Known.SOLVED for one in found):
        return "Every kata has been edited: pytest -k kata shows which are solved."
    if slow := next((one for one in found if one.stars < MOST_STARS), None):
        return f"Every kata is solved. For the third star: kata cost {slow.kata.name}"
    return "Every kata is solved, with every star."


def notes(root: Path, ledger: Ledger, found: Sequence[Present]) -> Iterator[Text]:
    """What is wrong with the ledger, and what is not committed."""
    yield from warned(ledger.warnings)
    try:
        git = git_in(root)
        solved = [one for one in found if one.known is Known.SOLVED]
        if solved and (behind := uncommitted(git, solved, ledger, head(git))):
            yield not_committed([one.kata for one in behind])
    except GitError as error:
        yield Text(f"no git here ({error}): no kata commit, no dates of commits", "dim")


def map_of(found: Sequence[Present], notes: Iterable[RenderableType] = ()) -> RenderableType:
    """Tracks with a bar each, a line a kata, the total, `notes`, what to do next."""
    parts: list[RenderableType] = []
    for name, members in itertools.groupby(found, key=lambda one: one.kata.track):
        track = list(members)
        solved = sum(one.known is Known.SOLVED for one in track)
        width = max(len(one.kata.name) for one in track)
        parts += [marks.title(name, solved, len(track)), *(_line(one, width) for one in track)]
    parts += [_total(found), *notes]
    if one := upcoming(found):
        parts.append(marks.turn_to(one.kata, "next"))
    return Group(*parts)


def _line(one: Present, width: int) -> Text:
    sign, colour = SIGNS[one.known]
    line = Text("  ", no_wrap=True, overflow="ellipsis")
    line.append(sign, colour).append(f" {one.kata.number} ", "dim")
    line.append_text(marks.stars(one.stars)).append(f" {one.kata.name:<{width}}  ")
    return line.append(standing(one), "dim" if one.known in (Known.SOLVED, Known.TODO) else "")


def standing(one: Present) -> str:
    """Where a kata stands, in a few words; of a solved one the day."""
    then = f"{marks.stars(one.last.stars).plain} ({one.last.date})" if one.last else ""
    match one.known:
        case Known.SOLVED:
            return str(one.last.date) if one.last else ""
        case Known.CHANGED:
            return f"changed since {then}"
        case Known.EDITED:
            return "edited, not yet passed"
        case Known.TODO:
            return f"todo again, was {then}" if then else "todo"
        case Known.GONE:
            return f"gone: kata reset {one.kata.name}"


def _total(found: Sequence[Present]) -> Text:
    counts = {known: sum(one.known is known for one in found) for known in Known}
    solved = counts.pop(Known.SOLVED)
    others = "".join(f", {n} {known.value}" for known, n in counts.items() if n)
    return marks.total(solved, len(found), others, sum(one.stars for one in found))


def not_committed(katas: Sequence[Kata]) -> Text:
    """The solved katas that the last commit lacks, and what commits them."""
    names = some([kata.name for kata in katas])
    return Text(f"not committed  {names}   {COMMIT}", "yellow")


def warned(warnings: Sequence[str]) -> Iterator[Text]:
    """What is wrong with the ledger's lines: the first few of them."""
    for warning in warnings[:_FEW]:
        yield Text(warning, "yellow")
    if more := warnings[_FEW:]:
        yield Text(f"and {len(more)} more lines like that", "yellow")


def some(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    named = ", ".join(names[:_FEW])
    more = len(names) - _FEW
    return f"{named} and {more} more" if more > 0 else named
