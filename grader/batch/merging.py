"""Stores of several runs into one."""

from __future__ import annotations

import contextlib
import sqlite3
import urllib.parse
from collections.abc import Iterator, Sequence
from pathlib import Path

from grader.batch.store import TERMS, Store, StoreProblem, Verdict, terms_in
from grader.batch.terms import Terms


def merge(files: Sequence[Path], into: Store) -> tuple[Terms, ...]:
    """Copy the verdicts of some stores into one, and return the terms of each of them.

    A verdict that is there stays. Raises StoreProblem before anything is copied where a file is no
    store, is named twice, or was judged by other terms than the rest.
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
            into.put_all(Verdict(*row) for row in found)
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
        raise StoreProblem(f"{file} says neither seed nor versions: was anything graded into it?")
    return terms_in(found[0], file)


@contextlib.contextmanager
def _reading(file: Path) -> Iterator[sqlite3.Connection]:
    """A store that nothing is written to. Raises StoreProblem."""
    if not file.exists():
        raise StoreProblem(f"there is no store {file}")
    if file.is_dir():
        raise StoreProblem(f"{file} is a folder, and no store")
    try:
        name = urllib.parse.quote(str(file.resolve()))
        how = "mode=rw" if _under_way(file) else "mode=ro&immutable=1"
        with contextlib.closing(sqlite3.connect(f"file:{name}?{how}", uri=True)) as database:
            yield database
    except sqlite3.Error as error:
        raise StoreProblem(f"{file} is no store of kata grade: {error}") from None


def _under_way(file: Path) -> bool:
    """Whether a run writes to it, or was killed: then the latest verdicts are in a file beside it.

    Else nothing is written, not even the files that SQLite keeps beside one that is only read.
    """
    return Path(f"{file.resolve()}-wal").exists()
