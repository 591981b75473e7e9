"""The history of passes, from the ledger and git.

The date of a pass is the author's date of the commit that first added its line. If no commit in
this clone added the line, the date in the line counts.
"""

from __future__ import annotations

import datetime
import enum
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from grader.exercise.catalog import KATAS
from grader.record.ledger import LEDGER, Ledger, Pass, pass_or_none
from grader.tools.git import Git

#: The header of each commit in a log: its id, the author's date, the parents.
_FORMAT = "--format=%x01%H %ad %P"
_LOG = ("log", "--reverse", "--topo-order", "--relative", "--date=short", _FORMAT, "--no-color")
_KATA = re.compile(rf"{KATAS}/(?P<id>[^/]+/kata_[^/]+)\.py")
_DIFF = ("--no-renames", "--no-ext-diff", "--no-textconv", "--no-show-signature", "--no-abbrev")


class EventKind(enum.Enum):
    """The effect of a commit, or of a session that is not committed yet, on a kata."""

    SOLVED = "solved"
    CHANGED = "changed"  # a content without a pass replaced one with a pass
    AGAIN = "solved again"  # a passing content that was committed before came back
    REVIEWED = "reviewed"  # written again in a copy of the stub


@dataclass(frozen=True, slots=True)
class KataEvent:
    """An event of a kata. `gained` is the number of stars that it never had before.

    `commit` is an id of 40 digits, "" if it is unknown, None if the event is not committed.
    """

    kind: EventKind
    kata: str
    day: datetime.date
    stars: int
    commit: str | None = ""
    gained: int = 0


@dataclass(frozen=True, slots=True)
class _Commit:
    """One commit: its index in the log, id, the author's date, and its lines in the log.

    `shallow`: its parents are missing, because the clone is shallow.
    """

    place: int
    id: str
    day: datetime.date
    shallow: bool
    lines: tuple[str, ...]


_SortableEvent = tuple[datetime.date, int, KataEvent]  # sorted by date and index in the log


@dataclass(frozen=True, slots=True)
class History:
    """All events, the newest last. `shallow` is the date on which a shallow clone's log begins."""

    events: tuple[KataEvent, ...] = ()
    shallow: datetime.date | None = None

    @property
    def days(self) -> tuple[datetime.date, ...]:
        """The days on which a star was gained, in order."""
        return tuple(sorted({event.day for event in self.events if event.gained}))

    def streaks(self, today: datetime.date) -> tuple[int, int]:
        """The current streak and the longest, in days; one that reaches yesterday is current."""
        runs: list[list[datetime.date]] = []
        for day in self.days:
            if runs and (day - runs[-1][-1]).days == 1:
                runs[-1].append(day)
            else:
                runs.append([day])
        is_current = runs and (today - runs[-1][-1]).days <= 1
        return len(runs[-1]) if is_current else 0, max(map(len, runs), default=0)


def history(ledger: Ledger, git: Git | None) -> History:
    """The history from the ledger, and from the commits if there is git. Raises GitError."""
    if git is None or git.run("rev-parse", "--verify", "--quiet", "HEAD").returncode:
        commit = None if git else ""
        solved = ((p.date, 0, _solved(p, p.date, commit)) for p in ledger.passes)
        return History(_in_order(solved))
    shallow = git("rev-parse", "--is-shallow-repository").strip() == "true"
    commits = _log_commits(git, shallow, "-c", "--raw", "--", KATAS)
    first_commits = _first_commits(
        _log_commits(git, shallow, "--patch", "--unified=0", "--", LEDGER)
    )
    by_id = {commit.id: commit for commit in commits}
    placed = list(_replacements(commits, ledger))
    for recorded in ledger.passes:
        commit_id = first_commits.get(recorded)
        commit = by_id.get(commit_id or "")
        day, index = (commit.day, commit.place) if commit else (recorded.date, len(commits))
        placed.append((day, index, _solved(recorded, day, commit_id)))
    shallow_since = max((commit.day for commit in commits if commit.shallow), default=None)
    return History(_in_order(placed), shallow_since)


def _solved(recorded: Pass, day: datetime.date, commit: str | None) -> KataEvent:
    kind = EventKind.REVIEWED if recorded.is_review else EventKind.SOLVED
    return KataEvent(kind, recorded.kata, day, recorded.stars, commit)


def _log_commits(git: Git, shallow: bool, *arguments: str) -> tuple[_Commit, ...]:
    """The commits that `git log` shows with these arguments, parents first."""
    commits = []
    for index, text in enumerate(git(*_LOG, *_DIFF, *arguments).split("\1")[1:]):
        heading, *lines = text.split("\n")
        commit_id, day, *parents = heading.split()
        at_boundary = shallow and not parents
        date = datetime.date.fromisoformat(day)
        commits.append(_Commit(index, commit_id, date, at_boundary, tuple(lines)))
    return tuple(commits)


def _first_commits(commits: Iterable[_Commit]) -> dict[Pass, str]:
    """The id of the commit that first added each pass; "" for commits with missing parents."""
    commit_of: dict[Pass, str] = {}
    for commit in commits:
        for line in commit.lines:
            added = line.startswith("+") and not line.startswith("+++")
            if added and (recorded := pass_or_none(line[1:])):
                commit_of.setdefault(recorded, "" if commit.shallow else commit.id)
    return commit_of


def _replacements(commits: Iterable[_Commit], ledger: Ledger) -> Iterator[_SortableEvent]:
    """The events of commits that replaced a passing content, or brought one back."""
    replaced_blobs: dict[str, set[str]] = {}
    for commit in commits:
        for kata, olds, new in filter(None, map(_parse_raw_line, commit.lines)):
            before = next(filter(None, (ledger.best(kata, old) for old in olds)), None)
            after = ledger.best(kata, new)
            replaced = replaced_blobs.setdefault(kata, set())
            if before and not after:
                replaced.add(before.blob)
                kind, stars = EventKind.CHANGED, before.stars
            elif after and new in replaced:
                replaced.discard(new)
                kind, stars = EventKind.AGAIN, after.stars
            else:
                continue
            event = KataEvent(kind, kata, commit.day, stars, commit.id)
            yield commit.day, commit.place, event


def _parse_raw_line(line: str) -> tuple[str, list[str], str] | None:
    """The kata, its blobs in each parent, and its new blob, from a line of `git log --raw`.

    The line is :100644 100644 <before> <after> M\tPATH; a merge has two colons and two <before>.
    """
    metadata, _, path = line.partition("\t")
    kata_file = _KATA.fullmatch(path)
    if not kata_file or not metadata.startswith(":"):
        return None
    parents = metadata.count(":")
    blobs = metadata.split()[parents + 1 : -1]
    return kata_file["id"], blobs[:-1], blobs[-1]


def _in_order(placed: Iterable[_SortableEvent]) -> tuple[KataEvent, ...]:
    """The events by day, then by commit, each with the stars that it gained."""
    most: dict[str, int] = {}
    events = []
    for _, _, event in sorted(placed, key=lambda entry: entry[:2]):
        had = most.get(event.kata, 0)
        most[event.kata] = max(had, event.stars)
        events.append(replace(event, gained=max(0, event.stars - had)))
    return tuple(events)
