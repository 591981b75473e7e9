"""Verdicts that outlive the process that asked for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.batch.store import Store, StoreProblem, key_of


def test_a_verdict_is_kept_once_and_for_good(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "store.sqlite"
    with Store(file) as store:
        assert store.put("key", "x", '{"stars": 3}')
        assert not store.put("key", "x", '{"stars": 0}')
        assert store.seed(7) == 7
    with Store(file) as store:
        assert store.get("key") == {"stars": 3}
        assert store.get("other") is None
        assert "key" in store
        assert len(store) == 1
        assert store.seed(8) == 7


def test_two_may_not_write_at_once(tmp_path: Path) -> None:
    file = tmp_path / "store.sqlite"
    with Store(file), pytest.raises(StoreProblem, match="another process is grading into"):
        Store(file)
    with Store(file):
        pass


def test_a_file_of_another_kind_is_no_store(tmp_path: Path) -> None:
    file = tmp_path / "store.sqlite"
    file.write_text("no database, and longer than a header" * 100)
    with pytest.raises(StoreProblem, match="can't be used as a store"):
        Store(file)


def test_whatever_a_verdict_depends_on_is_in_its_key() -> None:
    versions: dict[str, str | None] = {"jax": "0.10.2", "libtpu": None}
    changed = [
        ("k", "s", "a", 1, ("v5e",), versions),
        ("l", "s", "a", 1, ("v5e",), versions),
        ("k", "t", "a", 1, ("v5e",), versions),
        ("k", "s", "b", 1, ("v5e",), versions),
        ("k", "s", "a", 2, ("v5e",), versions),
        ("k", "s", "a", 1, ("v6e",), versions),
        ("k", "s", "a", 1, ("v5e",), {**versions, "jax": "0.12.0"}),
        ("k", "\ud800", "a", 1, ("v5e",), versions),
    ]
    assert len({key_of(*parts) for parts in changed}) == len(changed)
    assert key_of(*changed[0]) == key_of(*changed[0])
