"""A verdict is known until something changes that it depends on."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from grader.exercise.catalog import katas
from tests.support import known_verdicts, sessions
from tests.support.known_verdicts import FILES, state, verdict_digest
from tests.support.repositories import ROOT
from tests.support.variants import variants

state_of = state.__wrapped__
VERDICTS = "tests/course/test_verdicts.py"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small tree with a file at each place that verdicts depend on, and one elsewhere."""
    for name in FILES:
        file = tmp_path / (name if name.endswith(".py") else f"{name}/folder/some.py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"'{name}'\n")
    (tmp_path / "docs").mkdir()
    return tmp_path


@pytest.mark.parametrize("name", FILES)
def test_a_changed_file_makes_another_state(root: Path, name: str) -> None:
    before = state_of(root)
    file = root / (name if name.endswith(".py") else f"{name}/folder/some.py")
    file.write_text("changed\n")
    changed = state_of(root)
    file.rename(file.with_name("renamed.py")) if file.parent.name == "folder" else None
    assert before != changed
    assert name.endswith(".py") or state_of(root) not in (before, changed)


def test_other_files_make_no_other_state(root: Path) -> None:
    before = state_of(root)
    (root / "docs/page.md").write_text("new\n")
    (root / "pallascope/__pycache__").mkdir()
    (root / "pallascope/__pycache__/some.pyc").write_bytes(b"compiled")
    assert state_of(root) == before


def test_another_version_makes_another_state(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = state_of(root)
    monkeypatch.setattr(known_verdicts, "versions", lambda: {"jax": "99"})
    assert state_of(root) != before


def test_a_changed_solution_key_variant_or_test_has_another_digest(tmp_path: Path) -> None:
    kata = next(kata for kata in katas(ROOT, "solutions") if kata.name == "constant_add")
    own = next(variant for variant in variants() if variant.kata.id == kata.id)
    files = {"solution": kata.solution, "key_path": kata.key_path, "variant": own.path}
    copies = {name: tmp_path / f"{name}{file.suffix}" for name, file in files.items()}
    test = tmp_path / "test.py"

    def digests() -> set[str]:
        copied = SimpleNamespace(solution=copies["solution"], key_path=copies["key_path"])
        written = SimpleNamespace(kata=copied, source=copies["variant"].read_text())
        item = SimpleNamespace(nodeid="x", path=test)
        item.callspec = SimpleNamespace(params={"variant": written})
        return {verdict_digest(cast(pytest.Item, item), every_case) for every_case in (False, True)}

    for name, file in files.items():
        copies[name].write_bytes(file.read_bytes())
    test.write_text("")
    seen = digests()
    for file in (*copies.values(), test):
        file.write_text(file.read_text() + "\n# changed\n")
        new = digests()
        assert len(new) == 2
        assert not new & seen
        seen |= new


@pytest.fixture
def known(tmp_path: Path) -> Path:
    return tmp_path / "known.json"


def session(known: Path, *arguments: str) -> tuple[int, str]:
    """A run of one test of a verdict."""
    test = f"{VERDICTS}::test_stub_is_todo[constant_add]"
    asked = [test, f"--known-verdicts={known}", "-p", "no:cacheprovider", *arguments]
    return sessions.apart(120, ROOT, asked, {})


@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["one", "xdist"])
def test_a_known_verdict_is_left_out(known: Path, workers: tuple[str, ...]) -> None:
    code, text = session(known, *workers)
    assert code == 0, text
    assert f"0 verdicts known from {known}, 1 new" in text
    code, text = session(known, *workers)
    assert code == pytest.ExitCode.NO_TESTS_COLLECTED, text
    assert f"1 verdicts known from {known}, 0 new" in text
    (verdicts,) = json.loads(known.read_text()).values()
    known.write_text(json.dumps({"another state": verdicts}))
    code, text = session(known, *workers)
    assert code == 0, text
    assert f"0 verdicts known from {known}, 1 new" in text
    assert list(json.loads(known.read_text())) == ["another state", state()]


def test_a_list_without_exercises_is_skipped(known: Path) -> None:
    """As it is where it is no exercise's turn."""
    file = known.with_name("test_of_none.py")
    marks = "@pytest.mark.verdict\n@pytest.mark.parametrize('exercise', [])"
    file.write_text(f"import pytest\n\n{marks}\ndef test_verdict(exercise): ...\n")
    asked = [str(file), "-p", "tests.conftest", f"--known-verdicts={known}"]
    code, text = sessions.apart(60, ROOT, [*asked, "-p", "no:cacheprovider"], {})
    assert code == 0, text
    assert "1 skipped" in text


@pytest.mark.parametrize("text", ["", "{", "[]", '{"x": 1}'])
def test_a_broken_file_knows_nothing(known: Path, text: str) -> None:
    known.write_text(text)
    assert known_verdicts.read(known) == {}


def test_few_states_are_kept(known: Path) -> None:
    states = {str(number): ["verdict"] for number in range(known_verdicts.MAX_STATES + 3)}
    known_verdicts.write(known, states)
    assert list(known_verdicts.read(known)) == list(states)[3:]


def test_what_the_environment_asks_for_reaches_the_workers() -> None:
    """As .ci/run asks for known verdicts: without them each worker would grade everything."""
    file = "tests/pallascope/tools/test_text.py"
    asked = {"PYTEST_ADDOPTS": f"--deselect={file}"}
    code, text = sessions.apart(60, ROOT, [file, "-n1", "-p", "no:cacheprovider"], asked)
    assert code == pytest.ExitCode.NO_TESTS_COLLECTED, text
