"""A test is known to pass until something changes on which its result depends."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from grader.exercise.catalog import katas
from grader.exercise.variants import variants
from tests.support import known_results, sessions
from tests.support.known_results import (
    CODE,
    EVERYTHING,
    EVERYTHING_BUT_PAGES,
    PALLASCOPE_FILES,
    VERDICT_FILES,
    dependencies,
    result_digest,
)
from tests.support.repositories import ROOT

state_of = known_results.state.__wrapped__
VERDICTS = "tests/course/test_verdicts.py"
PLACES = (*VERDICT_FILES, *PALLASCOPE_FILES, *CODE)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small tree with a file at each place on which results depend, and one elsewhere."""
    for name in PLACES:
        file = file_at(tmp_path, name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"'{name}'\n")
    (tmp_path / "docs").mkdir()
    return tmp_path


def file_at(root: Path, name: str) -> Path:
    return root / (name if "." in name else f"{name}/folder/some.py")


@pytest.mark.parametrize("names", [VERDICT_FILES, PALLASCOPE_FILES, CODE, EVERYTHING])
@pytest.mark.parametrize("name", sorted(set(PLACES)))
def test_a_changed_file_makes_another_state(root: Path, name: str, names: tuple[str, ...]) -> None:
    before = state_of(names, root)
    file = file_at(root, name)
    file.write_text("changed\n")
    changed = state_of(names, root)
    covers = names == EVERYTHING or any(
        name == other or name.startswith(f"{other}/") for other in names
    )
    if covers or not any(other.startswith(f"{name}/") for other in names):
        assert (changed != before) is covers
    if covers and file.parent.name == "folder":
        file.rename(file.with_name("renamed.py"))
        assert state_of(names, root) not in (before, changed)


def test_pages_and_caches_make_no_other_state_of_the_code(root: Path) -> None:
    before, all_before = state_of(CODE, root), state_of(EVERYTHING, root)
    but_pages = state_of(EVERYTHING_BUT_PAGES, root)
    for folder in ("pallascope/__pycache__", ".venv/lib", ".git", "build"):
        (root / folder).mkdir(parents=True)
        (root / folder / "some.py").write_text("built")
    assert state_of(CODE, root) == before
    assert state_of(EVERYTHING, root) == all_before
    (root / "docs/page.md").write_text("new\n")
    assert state_of(CODE, root) == before
    assert state_of(EVERYTHING, root) != all_before
    assert state_of(EVERYTHING_BUT_PAGES, root) == but_pages
    (root / ".ci").mkdir()
    (root / ".ci/run").write_text("new\n")
    assert state_of(CODE, root) == before
    assert state_of(EVERYTHING_BUT_PAGES, root) != but_pages


def test_another_version_makes_another_state(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = state_of(CODE, root)
    monkeypatch.setattr(known_results, "versions", lambda: {"jax": "99"})
    assert state_of(CODE, root) != before


@pytest.mark.parametrize(
    ("file", "places"),
    [
        ("tests/course/test_contract.py", EVERYTHING),  # reads the katas
        ("tests/plugin/test_reporter.py", CODE),
        ("tests/checks/test_values.py", CODE),
        ("tests/pallascope/tpu/test_traffic.py", PALLASCOPE_FILES),
        ("tests/pallascope/tpu/test_pipeline_steps.py", EVERYTHING_BUT_PAGES),  # by a helper
        ("tests/course/test_edges.py", EVERYTHING_BUT_PAGES),
        ("tests/course/test_readmes.py", EVERYTHING),
        ("tests/course/test_pictures.py", EVERYTHING),
        ("tests/commands/test_docs.py", EVERYTHING),
        ("tests/sandbox/isolation/test_seccomp.py", CODE),
    ],
)
def test_what_a_test_depends_on(file: str, places: tuple[str, ...]) -> None:
    assert (ROOT / file).is_file()
    assert dependencies(ROOT / file) == places


def test_a_helper_that_reads_the_repository_counts() -> None:
    """Such as tests/support/hostile_machine.py."""
    for file in ROOT.glob("tests/**/test_*.py"):
        if "hostile_machine" in file.read_text():
            assert dependencies(file) in (EVERYTHING, EVERYTHING_BUT_PAGES), file


def test_a_changed_solution_key_variant_or_test_has_another_digest(tmp_path: Path) -> None:
    kata = next(kata for kata in katas(ROOT, "solutions") if kata.name == "constant_add")
    own = next(variant for variant in variants() if variant.kata.id == kata.id)
    files = {"solution": kata.solution, "key_path": kata.key_path, "variant": own.path}
    copies = {name: tmp_path / f"{name}{file.suffix}" for name, file in files.items()}
    test = tmp_path / "test.py"

    def digests() -> set[str]:
        copied = SimpleNamespace(solution=copies["solution"], key_path=copies["key_path"])
        written = SimpleNamespace(kata=copied, source=copies["variant"].read_text())
        item = SimpleNamespace(nodeid="x", path=test, get_closest_marker=lambda name: True)
        item.callspec = SimpleNamespace(params={"variant": written})
        return {result_digest(cast(pytest.Item, item), options) for options in ("", "--every-case")}

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


def session(known: Path, test: str, *arguments: str) -> tuple[int, str]:
    asked = [test, f"--known-results={known}", "-p", "no:cacheprovider", *arguments]
    return sessions.apart(120, ROOT, asked, {})


@pytest.mark.parametrize(
    ("test", "arguments"),
    [
        (f"{VERDICTS}::test_stub_is_todo[constant_add]", ()),
        ("tests/pallascope/tools/test_text.py", ("-n1",)),
    ],
    ids=["verdict", "xdist"],
)
def test_a_known_result_is_left_out(known: Path, test: str, arguments: tuple[str, ...]) -> None:
    code, text = session(known, test, *arguments)
    assert code == 0, text
    results = json.loads(known.read_text())
    assert results
    assert f"0 results known from {known}, {len(results)} new" in text
    code, text = session(known, test, *arguments)
    assert code == pytest.ExitCode.NO_TESTS_COLLECTED, text
    assert f"{len(results)} results known from {known}, 0 new" in text
    assert json.loads(known.read_text()) == results
    known.write_text(json.dumps({"another": 0}))
    code, text = session(known, test, *arguments)
    assert code == 0, text
    assert json.loads(known.read_text()) == {"another": 1, **results}


def test_a_failed_test_is_not_known(known: Path) -> None:
    file = known.with_name("test_of_two.py")
    file.write_text("def test_right(): ...\n\ndef test_wrong(): assert 0\n")
    asked = [str(file), "-p", "tests.conftest", f"--known-results={known}"]
    for count in (0, 1):
        code, text = sessions.apart(60, ROOT, [*asked, "-p", "no:cacheprovider"], {})
        assert code == 1, text
        assert f"{count} results known from {known}, {1 - count} new" in text


def test_a_list_without_exercises_is_skipped(known: Path) -> None:
    file = known.with_name("test_of_none.py")
    marks = "@pytest.mark.verdict\n@pytest.mark.parametrize('exercise', [])"
    file.write_text(f"import pytest\n\n{marks}\ndef test_verdict(exercise): ...\n")
    asked = [str(file), "-p", "tests.conftest", f"--known-results={known}"]
    code, text = sessions.apart(60, ROOT, [*asked, "-p", "no:cacheprovider"], {})
    assert code == 0, text
    assert "1 skipped" in text


@pytest.mark.parametrize("text", ["", "{", "[]", '{"x": "y"}'])
def test_a_broken_file_knows_nothing(known: Path, text: str) -> None:
    known.write_text(text)
    assert known_results.read(known) == {}


def test_results_that_no_longer_occur_are_dropped(known: Path) -> None:
    oldest = known_results.MAX_AGE
    known_results.write(known, {"seen": 3, "old": oldest - 1, "oldest": oldest}, ["seen", "new"])
    assert known_results.read(known) == {"seen": 0, "old": oldest, "new": 0}


def test_what_the_environment_asks_for_reaches_the_workers() -> None:
    """As .ci/run asks for known results: without them each worker would run everything."""
    file = "tests/pallascope/tools/test_text.py"
    asked = {"PYTEST_ADDOPTS": f"--deselect={file}"}
    code, text = sessions.apart(60, ROOT, [file, "-n1", "-p", "no:cacheprovider"], asked)
    assert code == pytest.ExitCode.NO_TESTS_COLLECTED, text
