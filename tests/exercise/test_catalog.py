"""The exercises on disk: where they lie, in which order, which ones a name selects."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grader.exercise.cases import draw
from grader.exercise.catalog import (
    FILE,
    TRACK,
    FileTooLong,
    Kata,
    kata_at,
    katas,
    matching_katas,
    no_match_message,
)
from grader.grading.session_case import Counted
from tests.support.repositories import Repository

STUB = '["o_ref[...] = x_ref[...] * 3"]'
DEBUGGING = Repository.KEY.replace('todo = ["double it"]', f"stub = {STUB}")


def touch(root: Path, *files: str) -> None:
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).touch()


def test_an_exercise_knows_its_names_and_files(tmp_path: Path) -> None:
    kata = Kata(tmp_path, "1_basics", "kata_07_blocked_transpose")
    assert kata.id == "1_basics/kata_07_blocked_transpose"
    assert (kata.number, kata.name) == ("07", "blocked_transpose")
    assert kata.test == "test_blocked_transpose"
    assert kata.path == tmp_path / "katas/1_basics/kata_07_blocked_transpose.py"
    assert kata.solution == tmp_path / "solutions/1_basics/kata_07_blocked_transpose.py"
    assert kata.key_path == tmp_path / "solutions/1_basics/kata_07_blocked_transpose.toml"


def test_a_learners_file_is_known_by_its_place(tmp_path: Path) -> None:
    kata = Kata(tmp_path, "1_basics", "kata_07_double")
    assert kata_at(tmp_path, kata.path) == kata


@pytest.mark.parametrize(
    "place",
    [
        "solutions/1_basics/kata_01_a.py",
        "katas/kata_01_a.py",
        "katas/1_basics/more/kata_01_a.py",
        "katas/basics/kata_01_a.py",
        "katas/1_Basics/kata_01_a.py",
        "katas/1_basics/kata_01_a.toml",
        "katas/1_basics/kata_a.py",
        "katas/1_basics/kata_01_A.py",
        "katas/1_basics/kata_01_.py",
        "katas/1_basics/kata_01_a.b.py",
        "katas/1_basics/01_a.py",
        "katas/1_basics/test_01_a.py",
        "kata_01_a.py",
    ],
    ids=lambda place: place.replace("kata", "x"),
)
def test_no_other_file_is_an_exercise(tmp_path: Path, place: str) -> None:
    assert kata_at(tmp_path, tmp_path / place) is None
    assert kata_at(tmp_path / "elsewhere", tmp_path / place) is None


def test_exercises_are_listed_by_number_and_nothing_else_is(tmp_path: Path) -> None:
    touch(
        tmp_path,
        "katas/10_last/kata_01_e.py",
        "katas/2_then/kata_02_d.py",
        "katas/2_then/kata_01_z.py",
        "katas/1_first/kata_10_c.py",
        "katas/1_first/kata_09_b.py",
        "katas/1_first/kata_1x_no.py",
        "katas/1_first/notes.py",
        "katas/1_first/README.md",
        "katas/1_first/deep/kata_01_no.py",
        "katas/drafts/kata_01_no.py",
        "solutions/1_first/kata_03_solved.py",
    )
    assert [kata.name for kata in katas(tmp_path)] == ["b", "c", "z", "d", "e"]
    assert [kata.name for kata in katas(tmp_path, "solutions")] == ["solved"]
    assert katas(tmp_path / "nowhere") == ()


def test_numbers_are_no_text(tmp_path: Path) -> None:
    touch(tmp_path, "katas/1_first/kata_99_a.py", "katas/1_first/kata_100_b.py")
    assert [kata.name for kata in katas(tmp_path)] == ["a", "b"]


def test_the_patterns_split_number_and_name() -> None:
    track, file = TRACK.fullmatch("12_more_fusion"), FILE.fullmatch("kata_03_row_sum.py")
    assert track
    assert (track["number"], track["name"]) == ("12", "more_fusion")
    assert file
    assert (file["number"], file["name"]) == ("03", "row_sum")


# ---- named ----

POOL = tuple(
    Kata(Path("/nowhere"), track, stem)
    for track, stem in (
        ("1_basics", "kata_01_double"),
        ("1_basics", "kata_10_matmul"),
        ("1_basics", "kata_11_matmul_double"),
        ("2_fusion", "kata_01_fused_matmul"),
    )
)
NAMED = {
    "a part": ("double", "double"),
    "the name alone": ("matmul", "matmul"),
    "a part of two": ("mat", "matmul matmul_double fused_matmul"),
    "stem": ("kata_01_double", "double"),
    "id": ("1_basics/kata_10_matmul", "matmul"),
    "file": ("1_basics/kata_10_matmul.py", "matmul"),
    "track": ("fusion", "fused_matmul"),
    "number": ("kata_01", "double fused_matmul"),
    "test": ("test_mat", "matmul matmul_double"),
    "and": ("basics and 10", "matmul"),
    "or": ("fused or 10", "matmul fused_matmul"),
    "not": ("mat and not (double or fusion)", "matmul"),
    "any case": ("BASICS and Mat", "matmul matmul_double"),
    "all": ("kata", "double matmul matmul_double fused_matmul"),
    "none": ("softmax", ""),
    "a word that is no operator": ("or1", ""),
}


@pytest.mark.parametrize(("expression", "names"), NAMED.values(), ids=NAMED.keys())
def test_a_name_selects_as_it_does_for_pytest(expression: str, names: str) -> None:
    assert [kata.name for kata in matching_katas(POOL, expression)] == names.split()


@pytest.mark.parametrize("expression", ["a and", "(a", "a b", ")"])
def test_a_malformed_name_is_a_value_error_that_shows_it(expression: str) -> None:
    with pytest.raises(ValueError, match="is not an expression that -k takes") as raised:
        matching_katas(POOL, expression)
    assert repr(expression) in str(raised.value)


def test_pytest_selects_the_same(repository: Repository) -> None:
    for kata in POOL:
        repository.add(kata.name, kata.track, int(kata.number))
    for expression in ("basics and not 10", "test_mat or fusion", "10_Mat", "kata_01_fused"):
        ran = repository.pytest("--collect-only", "-q", "-k", expression)
        collected = dict.fromkeys(re.findall(r"::test_(\w+)", ran.out))
        assert list(collected) == [kata.name for kata in matching_katas(POOL, expression)]


# ---- unmatched ----


@pytest.mark.parametrize(
    ("expression", "meant"),
    [
        ("duoble", "did you mean double?"),
        ("Matmull", "did you mean matmul, matmul_double or fused_matmul?"),
        ("fusoin", "did you mean fusion?"),  # a track
        ("mat and not bascis or 99", "did you mean basics?"),
        ("not basics", "kata list shows them all"),
        ("quux", "kata list shows them all"),
    ],
)
def test_a_name_that_nothing_has_leads_to_those_like_it(expression: str, meant: str) -> None:
    assert no_match_message(POOL, expression) == f"no kata matches {expression!r}; {meant}"


# ---- untouched, where ----


def test_a_stub_is_untouched_letter_for_letter(repository: Repository) -> None:
    kata = repository.add("double")
    assert kata.untouched()
    assert "NotImplementedError" in kata.path.read_text()
    kata.path.write_text(kata.stub_text() + "# mine\n")
    assert not kata.untouched()
    repository.solve(kata)
    assert not kata.untouched()


def test_what_can_not_be_read_is_not_untouched(repository: Repository) -> None:
    missing, binary, keyless = (repository.add(name, number=i) for i, name in enumerate("abc"))
    missing.path.unlink()
    binary.path.write_bytes(b"\xff")
    keyless.key_path.unlink()
    assert not missing.untouched()
    assert not binary.untouched()
    assert not Kata(keyless.root, keyless.track, keyless.stem).untouched()


def test_given_code_is_untouched_whatever_stands_around_it(repository: Repository) -> None:
    kata = repository.add("mend", key=DEBUGGING)
    assert "* 3" in kata.path.read_text()
    assert kata.untouched()
    kata.path.write_text("# my notes\n" + kata.stub_text())
    assert kata.untouched()
    repository.solve(kata)
    assert not kata.untouched()


@pytest.mark.parametrize("line", ["def\n", "# BEGIN SOLUTION\n"], ids=["syntax", "markers"])
def test_given_code_that_no_longer_parses_is_graded(repository: Repository, line: str) -> None:
    kata = repository.add("mend", key=DEBUGGING)
    kata.path.write_text(kata.stub_text() + line)
    assert not kata.untouched()


def test_what_crashes_a_compiler_is_left_to_a_worker(repository: Repository) -> None:
    """Loops within loops take the C stack, and Python says nothing of it: it is gone."""
    kata = repository.add("mend", key=DEBUGGING)
    kata.path.write_text(f"{kata.stub_text()}[x {'for x in y ' * 80_000}]\n")
    assert not kata.untouched()


def test_typing_starts_in_the_first_region(repository: Repository) -> None:
    kata = repository.add("double")
    file, line = kata.location()
    assert file == "katas/1_first/kata_01_double.py"
    assert "NotImplementedError" in kata.path.read_text().splitlines()[line - 1]
    kata.path.write_text("# no region\n")
    assert kata.location() == (file, 1)
    kata.path.write_text("\n# BEGIN SOLUTION\n")
    assert kata.location() == (file, 1)
    kata.path.unlink()
    assert kata.location() == (file, 1)


def test_a_file_that_never_ends_is_not_read_whole(repository: Repository) -> None:
    kata = repository.add("double")
    kata.path.parent.mkdir(parents=True, exist_ok=True)
    kata.path.unlink(missing_ok=True)
    kata.path.symlink_to("/dev/zero")
    with pytest.raises(FileTooLong, match="kata_"):
        kata.content()
    assert not kata.untouched()
    counted = Counted(kata, kata.answer_digest())
    grade = counted.grade(pytest.fail, draw(kata.id, kata.key, 1)[0], 1)
    assert grade.finding
    assert grade.finding.phrase == "too long (more than 16,777,216 bytes)"
