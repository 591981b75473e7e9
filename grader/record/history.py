"""The history of passes, from the ledger and git.

A pass happened on the day of the commit that first brought its line, by the author's date; where
no commit that is here did, on the day that the line itself names.
"""

from __future__ import annotations

import datetime
import enum
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from grader.exercise.catalog import KATAS
from grader.record.ledger import (
    LEDGER,
    Ledger,
    Pass,
    pass_or_none,
)
from grader.tools.git import Git

#: Before each commit of a log: its id, the author's day, the parents.
_HEADING = "--format=%x01%H %ad %P"
_LOG = ("log", "--reverse", "--topo-order", "--relative", "--date=short", _HEADING, "--no-color")
_KATA = re.compile(rf"{KATAS}/(?P<id>[^/]+/kata_[^/]+)\.py")
_PLAIN = ("--no-renames", "--no-ext-diff", "--no-textconv", "--no-show-signature", "--no-abbrev")


class EventKind(enum.Enum):
    """What a commit, or a session that is not committed yet, did to a kata."""

    SOLVED = "solved"
    CHANGED = "changed"  # a content that is known to pass was replaced by one that is not
    AGAIN = "solved again"  # a passing content that had been committed before came back


@dataclass(frozen=True, slots=True)
class KataEvent:
    """Something that happened to a kata. `gained` are the stars that it never had before.

    `commit` is an id of 40 digits, "" where it is not known, None where there is no commit of it.
    """

    kind: EventKind
    kata: str
    day: datetime.date
    stars: int
    commit: str | None = ""
    gained: int = 0


@dataclass(frozen=True, slots=True)
class _Commit:
    """One commit: its place in the log, id, the author's day, and what the log shows of it.

    `cut` says that a shallow clone lacks what came before.
    """

    place: int
    id: str
    day: datetime.date
    cut: bool
    lines: tuple[str, ...]


_Placed = tuple[datetime.date, int, KataEvent]  # sorted by day and place


@dataclass(frozen=True, slots=True)
class History:
    """All events, the newest last; `cut` is the day before which a shallow clone knows nothing."""

    events: tuple[KataEvent, ...] = ()
    cut: datetime.date | None = None

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
        going_on = runs and (today - runs[-1][-1]).days <= 1
        return len(runs[-1]) if going_on else 0, max(map(len, runs), default=0)


def history(ledger: Ledger, git: Git | None) -> History:
    """What the ledger and the commits say; without git, the ledger alone. Raises git.GitError."""
    if git is None or git.run("rev-parse", "--verify", "--quiet", "HEAD").returncode:
        commit = None if git else ""
        solved = ((p.date, 0, _solved(p, p.date, commit)) for p in ledger.passes)
        return History(_in_order(solved))
    shallow = git("rev-parse", "--is-shallow-repository").strip() == "true"
    commits = _log(git, shallow, "-c", "--raw", "--", KATAS)
    brought = _brought(_log(git, shallow, "--patch", "--unified=0", "--", LEDGER))
    by_id = {commit.id: commit for commit in commits}
    placed = list(_replacements(commits, ledger))
    for recorded in ledger.passes:
        name = brought.get(recorded)
        commit = by_id.get(name or "")
        day, place = (commit.day, commit.place) if commit else (recorded.date, len(commits))
        placed.append((day, place, _solved(recorded, day, name)))
    cut = max((commit.day for commit in commits if commit.cut), default=None)
    return History(_in_order(placed), cut)


def _solved(recorded: Pass, day: datetime.date, commit: str | None) -> KataEvent:
    return KataEvent(EventKind.SOLVED, recorded.kata, day, recorded.stars, commit)


def _log(git: Git, shallow: bool, *arguments: str) -> tuple[_Commit, ...]:
    """The commits that touch something, parents first."""
    commits = []
    for place, text in enumerate(git(*_LOG, *_PLAIN, *arguments).split("\1")[1:]):
        heading, *lines = text.split("\n")
        name, day, *parents = heading.split()
        cut = shallow and not parents
        date = datetime.date.fromisoformat(day)
        commits.append(_Commit(place, name, date, cut, tuple(lines)))
    return tuple(commits)


def _brought(commits: Iterable[_Commit]) -> dict[Pass, str]:
    """The commit that first brought each pass; none for what may have come before a cut."""
    commit_of: dict[Pass, str] = {}
    for commit in commits:
        for line in commit.lines:
            added = line.startswith("+") and not line.startswith("+++")
            if added and (recorded := pass_or_none(line[1:])):
                commit_of.setdefault(recorded, "" if commit.cut else commit.id)
    return commit_of


def _replacements(commits: Iterable[_Commit], ledger: Ledger) -> Iterator[_Placed]:
    """Where a commit replaced a passing content, or brought one back."""
    lost: dict[str, set[str]] = {}
    for commit in commits:
        for kata, olds, new in filter(None, map(_change, commit.lines)):
            before = next(filter(None, (ledger.best(kata, old) for old in olds)), None)
            now = ledger.best(kata, new)
            gone = lost.setdefault(kata, set())
            if before and not now:
                gone.add(before.blob)
                kind, stars = EventKind.CHANGED, before.stars
            elif now and new in gone:
                gone.discard(new)
                kind, stars = EventKind.AGAIN, now.stars
            else:
                continue
            event = KataEvent(kind, kata, commit.day, stars, commit.id)
            yield commit.day, commit.place, event


def _change(line: str) -> tuple[str, list[str], str] | None:
    """Kata, contents before (one for each parent) and content after, from a line of --raw.

    :100644 100644 <before> <after> M\tPATH; in a merge with two of the colons and of the befores.
    """
    about, _, path = line.partition("\t")
    kata_file = _KATA.fullmatch(path)
    if not kata_file or not about.startswith(":"):
        return None
    parents = about.count(":")
    blobs = about.split()[parents + 1 : -1]
    return kata_file["id"], blobs[:-1], blobs[-1]


def _in_order(placed: Iterable[_Placed]) -> tuple[KataEvent, ...]:
    """The events by day, and on one day by commit; with the stars that each brought."""
    most: dict[str, int] = {}
    events = []
    for _, _, event in sorted(placed, key=lambda entry: entry[:2]):
        had = most.get(event.kata, 0)
        most[event.kata] = max(had, event.stars)
        events.append(replace(event, gained=max(0, event.stars - had)))
    return tuple(events)
