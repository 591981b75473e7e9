"""Verdicts of several stores in one."""

from __future__ import annotations

import dataclasses
import shutil
import sqlite3
from pathlib import Path

import pytest

from grader.batch.store import Store, StoreProblem, Terms, merge

TERMS = Terms(7, ("v5e",), {"jax": "1.0", "libtpu": None}, "1/2")


@dataclasses.dataclass(frozen=True)
class Folder:
    root: Path

    def store(self, name: str, *keys: str, terms: Terms | None = TERMS) -> Path:
        file = self.root / name
        with Store(file) as store:
            for key in keys:
                store.put(key, "x", f'"{name}"')
            if terms:
                store.judge_by(terms)
        return file

    def merge(self, *files: Path) -> dict[str, str]:
        """The verdicts in a new store that these have been merged into."""
        with Store(self.root / "all") as into:
            assert [terms.seed for terms in merge(files, into)] == [7] * len(files)
        rows = sqlite3.connect(self.root / "all").execute("select key, verdict from verdicts")
        return dict(rows)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_verdicts_come_together_and_the_first_stays(folder: Folder) -> None:
    one = folder.store("one", "a", "b")
    two = folder.store("two", "b", "c", terms=dataclasses.replace(TERMS, shard="2/2"))
    assert folder.merge(one, two) == {"a": '"one"', "b": '"one"', "c": '"two"'}
    assert folder.merge(two) == {"a": '"one"', "b": '"one"', "c": '"two"'}


def test_a_store_that_is_read_stays_alone(folder: Folder) -> None:
    (folder.root / "parts").mkdir()
    folder.merge(folder.store("parts/one", "a"))
    assert {file.name for file in (folder.root / "parts").iterdir()} == {"one", "one.lock"}


def test_of_a_run_that_was_killed_every_verdict_is_there(folder: Folder) -> None:
    with Store(folder.root / "running") as store:
        store.judge_by(TERMS)
        store.put("a", "x", '"late"')
        for name in ("running", "running-wal"):
            shutil.copy(folder.root / name, folder.root / f"killed{name[7:]}")
        assert folder.merge(folder.root / "running") == {"a": '"late"'}
    (folder.root / "all").unlink()
    assert folder.merge(folder.root / "killed") == {"a": '"late"'}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"seed": 8}, "seed 7 and seed 8"),
        ({"chips": ("v6e",)}, "for v5e and for v6e"),
        ({"versions": {"jax": "2.0", "libtpu": None}}, "with jax 1.0 and with 2.0"),
        ({"versions": {"jax": "1.0", "libtpu": "0.1"}}, "with libtpu not installed and with 0.1"),
    ],
    ids=("seed", "chip", "version", "not-installed"),
)
def test_what_was_judged_otherwise_is_not_merged(
    change: dict[str, object], says: str, folder: Folder
) -> None:
    other = folder.store("two", "b", terms=dataclasses.replace(TERMS, **change))  # type: ignore[arg-type]
    with pytest.raises(StoreProblem, match=f"one and .*two can't be merged: {says}"):
        folder.merge(folder.store("one", "a"), other)
    folder.store("all", terms=dataclasses.replace(TERMS, **change))  # type: ignore[arg-type]
    with pytest.raises(StoreProblem, match=f"can't be merged into .*all: {says}"):
        folder.merge(folder.root / "one")


def test_what_is_no_store_is_told(folder: Folder) -> None:
    good = folder.store("good", "a")
    (folder.root / "text").write_text("no database, and longer than a header" * 100)
    (folder.root / "nothing").touch()
    sqlite3.connect(folder.root / "other").execute("create table stars(name)").connection.commit()
    link = folder.root / "link"
    link.symlink_to(good)
    for name, says in (
        ("text", "isn't a store of kata grade"),
        ("nothing", "isn't a store of kata grade"),
        ("other", "isn't a store of kata grade"),
        ("absent", "the store .*absent doesn't exist"),
        (".", "is a folder"),
        ("link", "is named twice"),
        ("good", "is named twice"),
        ("all", "into itself"),
    ):
        with pytest.raises(StoreProblem, match=says):
            folder.merge(good, folder.root / name)
    assert folder.merge(good) == {"a": '"good"'}
    with pytest.raises(StoreProblem, match="was anything graded into it"):
        folder.merge(folder.store("unused", terms=None))
