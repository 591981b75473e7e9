"""Verdicts by submission in an SQLite file, and merging such files.

A submission with a stored verdict is never judged again. Stores of several runs can be merged if
the runs judged by the same `Terms`.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import sqlite3
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pallascope.tools import codec


@dataclass(frozen=True, slots=True)
class Terms:
    """Seed, chips, and versions by package; `shard` ("2/4") is the part of the samples judged."""

    seed: int
    chips: tuple[str, ...]
    versions: dict[str, str | None]
    shard: str = ""

    def differs(self, other: Terms) -> str:
        """The first difference, in words; "" if there is none. Shards may differ."""
        if self.seed != other.seed:
            return f"seed {self.seed} and seed {other.seed}"
        if self.chips != other.chips:
            return f"for {', '.join(self.chips)} and for {', '.join(other.chips)}"
        for name in sorted({*self.versions, *other.versions}):
            one, two = self.versions.get(name), other.versions.get(name)
            if one != two:
                return f"with {name} {one or 'not installed'} and with {two or 'none'}"
        return ""


_TABLES = """
create table if not exists verdicts(
    key text primary key, kata text not null, verdict text not null, judged text not null
) without rowid;
create table if not exists settings(name text primary key, value text not null) without rowid;
"""


#: The setting that holds the terms of the latest run.
TERMS = "terms"


class StoreProblem(ValueError):
    """The store can't be used; the text says why."""


@dataclass(frozen=True, slots=True)
class StoredVerdict:
    """A row of the store. `verdict` is JSON, `judged` the UTC time."""

    key: str
    kata: str
    verdict: str
    judged: str


class Store:
    """The verdicts in one file, which one process at a time writes to.

    A verdict is on disk when `put` returns, so a killed run loses only submissions that it was
    judging. Raises StoreProblem if another process has the store, or the file isn't one.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        file.parent.mkdir(parents=True, exist_ok=True)
        self._lock = open(f"{file}.lock", "a")  # noqa: SIM115 (held as long as the store)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._database = sqlite3.connect(file, isolation_level=None)
            self._database.execute("pragma journal_mode = wal")
            self._database.execute("pragma synchronous = full")
            self._database.executescript(_TABLES)
        except BlockingIOError:
            self._lock.close()
            raise StoreProblem(f"another process is grading into {file}") from None
        except sqlite3.Error as error:
            self._lock.close()
            raise StoreProblem(f"{file} can't be used as a store: {error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(sqlite3.Error):
            self._database.close()
        self._lock.close()

    def put(self, key: str, kata: str, verdict: str) -> bool:
        """Keep a verdict (JSON); False if there is one already, which stays."""
        done = self._execute(
            "insert or ignore into verdicts values(?, ?, ?, datetime('now'))", (key, kata, verdict)
        )
        return bool(done.rowcount)

    def get(self, key: str) -> dict[str, Any] | None:
        """The verdict on a submission, None if it was never judged."""
        found = self._execute("select verdict from verdicts where key = ?", (key,))
        row = found.fetchone()
        return self._parsed(row[0]) if row else None

    def _execute(self, *statement: Any) -> sqlite3.Cursor:
        """Raises StoreProblem if the disk is full, or the file is damaged."""
        try:
            return self._database.execute(*statement)
        except sqlite3.Error as error:
            raise StoreProblem(f"{self.file} can't be used as a store: {error}") from None

    def _parsed(self, text: str) -> dict[str, Any]:
        """Parse a JSON object from the store. Raises StoreProblem."""
        try:
            if isinstance(found := json.loads(text), dict):
                return found
        except (TypeError, ValueError):
            pass
        raise StoreProblem(f"{self.file} is damaged: {str(text)[:40]!r} isn't a JSON object")

    def __contains__(self, key: str) -> bool:
        found = self._execute("select 1 from verdicts where key = ?", (key,))
        return found.fetchone() is not None

    def __len__(self) -> int:
        return self._execute("select count(*) from verdicts").fetchone()[0]

    def put_all(self, verdicts: Iterable[StoredVerdict]) -> None:
        """Keep many verdicts, or none if that fails. Existing verdicts stay."""
        rows = ((one.key, one.kata, one.verdict, one.judged) for one in verdicts)
        self._execute("begin")
        try:
            self._database.executemany("insert or ignore into verdicts values(?, ?, ?, ?)", rows)
        except BaseException:
            self._execute("rollback")
            raise
        self._execute("commit")

    def terms(self) -> Terms | None:
        """The terms of the latest run; None before the first."""
        find = "select value from settings where name = ?"
        found = self._execute(find, (TERMS,)).fetchone()
        return terms_in(found[0], self.file) if found else None

    def judge_by(self, terms: Terms) -> None:
        """Store the terms of this run."""
        text = json.dumps(codec.to_builtins(terms))
        self._execute("insert or replace into settings values(?, ?)", (TERMS, text))

    def seed(self, otherwise: int) -> int:
        """The seed of the first run; if there was none, `otherwise`, which is stored.

        Raises StoreProblem if the store's seed isn't a whole number.
        """
        add = "insert or ignore into settings values('seed', ?)"
        self._execute(add, (str(otherwise),))
        found = self._execute("select value from settings where name = 'seed'")
        text = str(found.fetchone()[0])
        try:
            return int(text)
        except ValueError:
            raise StoreProblem(
                f"{self.file} can't be used as a store: its seed {text[:40]!r} isn't a whole "
                "number. Give another --store, or delete this one to judge everything again."
            ) from None


def terms_in(text: str, file: Path) -> Terms:
    """Parse a store's terms. Raises StoreProblem."""
    try:
        return codec.from_builtins(Terms, json.loads(text))
    except (TypeError, ValueError) as error:
        raise StoreProblem(f"{file} is damaged: it has no valid terms ({error})") from None


def key_of(
    kata: str,
    source: str,
    answer: str,
    seed: int,
    chips: tuple[str, ...],
    versions: Mapping[str, str | None],
) -> str:
    """The key of a submission: a hash of everything that its verdict depends on.

    `answer` is the digest of solution and key.
    """
    parts = [kata, source, answer, seed, list(chips), dict(versions)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def merge(files: Sequence[Path], into: Store) -> tuple[Terms, ...]:
    """Copy the verdicts of some stores into one, and return the terms of each of them.

    Existing verdicts stay. Raises StoreProblem before anything is copied if a file isn't a store,
    is named twice, or was judged by other terms than the rest.
    """
    _demand_different(files, into.file)
    terms = tuple(_terms_of(file) for file in files)
    for file, other in zip(files[1:], terms[1:], strict=True):
        if differs := terms[0].differs(other):
            raise StoreProblem(f"{files[0]} and {file} can't be merged: {differs}")
    own = into.terms()
    if own and (differs := terms[0].differs(own)):
        raise StoreProblem(f"{files[0]} can't be merged into {into.file}: {differs}")
    for file in files:
        with _reading(file) as store:
            found = store.execute("select key, kata, verdict, judged from verdicts")
            into.put_all(StoredVerdict(*row) for row in found)
    return terms


def _demand_different(files: Sequence[Path], target: Path) -> None:
    seen: set[Path] = set()
    for file in files:
        if (resolved := file.resolve()) in seen:
            raise StoreProblem(f"{file} is named twice")
        if resolved == target.resolve():
            raise StoreProblem(f"{file} can't be merged into itself: give another --out or --store")
        seen.add(resolved)


def _terms_of(file: Path) -> Terms:
    with _reading(file) as store:
        found = store.execute("select value from settings where name = ?", (TERMS,)).fetchone()
    if found is None:
        raise StoreProblem(f"{file} has neither seed nor versions: was anything graded into it?")
    return terms_in(found[0], file)


@contextlib.contextmanager
def _reading(file: Path) -> Iterator[sqlite3.Connection]:
    """Open a store for reading. Raises StoreProblem."""
    if not file.exists():
        raise StoreProblem(f"the store {file} doesn't exist")
    if file.is_dir():
        raise StoreProblem(f"{file} is a folder, not a store")
    try:
        name = urllib.parse.quote(str(file.resolve()))
        how = "mode=rw" if _under_way(file) else "mode=ro&immutable=1"
        with contextlib.closing(sqlite3.connect(f"file:{name}?{how}", uri=True)) as database:
            yield database
    except sqlite3.Error as error:
        raise StoreProblem(f"{file} isn't a store of kata grade: {error}") from None


def _under_way(file: Path) -> bool:
    """Whether a run writes to it, or was killed: then the latest verdicts are in a second file.

    Otherwise it is opened without writing even the files that SQLite keeps next to a database.
    """
    return Path(f"{file.resolve()}-wal").exists()
