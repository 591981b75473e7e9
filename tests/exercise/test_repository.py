"""Writing the exercises' files, and never over what a learner wrote."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from grader.exercise.catalog import Kata
from grader.exercise.key_tables import KeyProblem
from grader.exercise.repository import (
    RepositoryError,
    SyncOutcome,
    find_root,
    new_kata,
    reset,
    sync,
)
from pallascope.tools.regions import RegionError
from tests.support.repositories import Repository

NOON = datetime.datetime(2030, 1, 2, 12, 0, 0, 345)
LATER = NOON + datetime.timedelta(microseconds=1)
STUB = Repository.KEY.replace('todo = ["double it"]', 'stub = ["o_ref[...] = x_ref[...] * 3"]')


def outcome(kata: Kata, check: bool = False) -> SyncOutcome:
    """What becomes of `kata`, the only one of its repository."""
    (result,) = sync(kata.root, check)
    assert result.kata == kata
    return result.outcome


def rewrite_around(kata: Kata) -> None:
    """The author rewords the solution outside its region."""
    text = kata.solution.read_text().replace("Double every element", "Multiply all by two")
    kata.solution.write_text(text)


# ---- find_root ----


def test_the_root_is_found_from_anywhere_below(tmp_path: Path) -> None:
    for folder in ("katas/1_first/deep", "solutions", "elsewhere"):
        (tmp_path / folder).mkdir(parents=True)
    for start in (tmp_path, tmp_path / "katas/1_first/deep", tmp_path / "elsewhere"):
        assert find_root(start) == tmp_path


def test_the_nearest_root_counts(tmp_path: Path) -> None:
    inner = tmp_path / "katas" / "clone"
    for root in (tmp_path, inner):
        (root / "katas").mkdir(parents=True, exist_ok=True)
        (root / "solutions").mkdir()
    assert find_root(inner / "katas") == inner


def test_one_of_the_two_folders_is_no_root(tmp_path: Path) -> None:
    (tmp_path / "katas").mkdir()
    (tmp_path / "solutions").touch()
    with pytest.raises(RepositoryError, match="there are no katas in") as raised:
        find_root(tmp_path / "katas")
    assert str(tmp_path / "katas") in str(raised.value)


# ---- sync ----


def test_a_generated_file_is_the_same(repository: Repository) -> None:
    kata = repository.add("double")
    assert outcome(kata) is SyncOutcome.SAME
    assert outcome(kata, check=True) is SyncOutcome.SAME


def test_a_missing_file_is_generated(repository: Repository) -> None:
    kata = repository.add("double")
    kata.path.unlink()
    kata.path.parent.rmdir()
    assert outcome(kata, check=True) is SyncOutcome.DIFFERS
    assert not kata.path.exists()
    assert outcome(kata) is SyncOutcome.WRITTEN
    assert kata.path.read_text() == kata.stub_text()
    assert "raise NotImplementedError" in kata.path.read_text()
    assert Repository.BODY not in kata.path.read_text()


def test_a_stub_follows_its_solution(repository: Repository) -> None:
    kata = repository.add("double")
    rewrite_around(kata)
    before = kata.path.read_text()
    assert outcome(kata, check=True) is SyncOutcome.DIFFERS
    assert kata.path.read_text() == before
    assert outcome(kata) is SyncOutcome.WRITTEN
    assert "Multiply all by two" in kata.path.read_text()
    assert outcome(kata) is SyncOutcome.SAME


def test_a_stub_follows_its_key(repository: Repository) -> None:
    """Any lone raise of NotImplementedError is a stub, also one with an earlier message."""
    kata = repository.add("double")
    kata.key_path.write_text(kata.key_path.read_text().replace("double it", "double " * 20))
    assert outcome(Kata(kata.root, kata.track, kata.stem)) is SyncOutcome.WRITTEN
    assert "double double" in kata.path.read_text()


def test_given_code_is_a_stub_too(repository: Repository) -> None:
    kata = repository.add("mend", key=STUB)
    rewrite_around(kata)
    assert outcome(kata) is SyncOutcome.WRITTEN
    repository.solve(kata)
    assert outcome(kata) is SyncOutcome.HELD


ATTEMPTS = {
    "solved": "o_ref[...] = x_ref[...] * 2",
    "half": "x = x_ref[...]\nraise NotImplementedError('the rest')",
    "below": "raise NotImplementedError('double it')\no_ref[...] = x_ref[...] * 2",
    "pass": "pass",
    "empty": "",
    "no-python": "o_ref[...] = = 2",
    "another-raise": "raise ValueError('not yet')",
    "re-raise": "raise",
}


@pytest.mark.parametrize("body", ATTEMPTS.values(), ids=ATTEMPTS.keys())
@pytest.mark.parametrize("check", [False, True], ids=["write", "check"])
def test_an_attempt_is_left_alone(repository: Repository, body: str, check: bool) -> None:
    kata = repository.add("double")
    repository.solve(kata, body)
    before = kata.path.read_text()
    assert outcome(kata, check) is SyncOutcome.HELD
    assert kata.path.read_text() == before


@pytest.mark.parametrize("text", ["", "# BEGIN SOLUTION\n"], ids=["no-region", "no-end"])
def test_a_file_whose_regions_are_gone_is_left_alone(repository: Repository, text: str) -> None:
    kata = repository.add("double")
    kata.path.write_text(text)
    assert outcome(kata) is SyncOutcome.HELD
    assert kata.path.read_text() == text


def test_one_region_that_is_no_stub_is_enough(repository: Repository) -> None:
    kata = repository.add("double")
    second = "def more():\n    # BEGIN SOLUTION\n    return 3\n    # END SOLUTION\n"
    kata.solution.write_text(kata.solution.read_text() + second)
    kata.key_path.write_text(Repository.KEY.replace('["double it"]', '["a", "b"]'))
    kata = Kata(kata.root, kata.track, kata.stem)
    kata.path.write_text(kata.stub_text().replace('raise NotImplementedError("b")', "return 4"))
    assert outcome(kata) is SyncOutcome.HELD
    kata.path.write_text("# changed\n" + kata.stub_text())
    assert outcome(kata) is SyncOutcome.WRITTEN


def test_notes_above_the_raise_are_left_alone(repository: Repository) -> None:
    kata = repository.add("double")
    stub = 'raise NotImplementedError("double it")'
    repository.solve(kata, f"# tried: o_ref[...] = x_ref[...] + x_ref[...]\n{stub}")
    assert outcome(kata) is SyncOutcome.HELD
    assert "tried:" in kata.path.read_text()


def test_given_code_that_the_key_indents_is_a_stub(repository: Repository) -> None:
    kata = repository.add("mend", key=STUB.replace('["o_ref', '["  o_ref'))
    rewrite_around(kata)
    assert outcome(kata) is SyncOutcome.WRITTEN


def test_every_solution_is_told_of(repository: Repository) -> None:
    same, attempted, gone = (repository.add(name, number=i) for i, name in enumerate("abc"))
    repository.solve(attempted)
    gone.path.unlink()
    found = {result.kata: result.outcome for result in sync(repository.root, False)}
    assert found == {same: SyncOutcome.SAME, attempted: SyncOutcome.HELD, gone: SyncOutcome.WRITTEN}


def test_a_solution_that_does_not_fit_its_key_is_an_error(repository: Repository) -> None:
    """And the error names the file that is to be corrected, and what of it."""
    kata = repository.add("double")
    text = kata.solution.read_text()
    kata.solution.write_text("# no region\n")
    count = (
        "todo: has 1 texts for 0 solution regions of kata_01_double.py; needs one for each region"
    )
    with pytest.raises(KeyProblem, match=f"kata_01_double.toml: {count}"):
        sync(kata.root, True)
    kata.solution.write_text(text.replace("# END SOLUTION", "# THE END"))
    with pytest.raises(RegionError, match=r"kata_01_double.py: line \d+: '# BEGIN SOLUTION' with"):
        sync(kata.root, True)
    kata.key_path.unlink()
    with pytest.raises(KeyProblem, match="this file doesn't exist"):
        sync(kata.root, True)


# ---- reset ----


def test_reset_saves_the_attempt_byte_for_byte(repository: Repository) -> None:
    kata = repository.add("double")
    attempt = kata.path.read_bytes() + b"# caf\xe9\r\n"
    kata.path.write_bytes(attempt)
    saved = reset(kata, NOON)
    assert saved
    assert saved.is_relative_to(kata.root / ".kata" / "attempts" / kata.id)
    assert saved.read_bytes() == attempt
    assert kata.untouched()


def test_each_attempt_is_kept(repository: Repository) -> None:
    kata = repository.add("double")
    saved = []
    for body, now in (("first = 1", NOON), ("second = 2", LATER)):
        repository.solve(kata, body)
        saved.append(reset(kata, now))
    first, second = saved
    assert first
    assert second
    assert first < second
    assert "first = 1" in first.read_text()
    assert "second = 2" in second.read_text()


def test_there_is_nothing_to_save_of_a_stub(repository: Repository) -> None:
    kata = repository.add("double")
    assert reset(kata, NOON) is None
    kata.path.unlink()
    assert reset(kata, NOON) is None
    assert kata.untouched()
    assert not (kata.root / ".kata").exists()


def test_an_attempt_outlives_a_broken_key(repository: Repository) -> None:
    kata = repository.add("double")
    repository.solve(kata)
    kata.key_path.write_text("")
    with pytest.raises(KeyProblem):
        reset(Kata(kata.root, kata.track, kata.stem), NOON)
    assert Repository.BODY in kata.path.read_text()


# ---- new ----


def test_a_new_exercise_is_three_files_that_fit(repository: Repository) -> None:
    kata = new_kata(repository.root, "2_fusion/row_softmax")
    assert kata.id == "2_fusion/kata_01_row_softmax"
    assert kata.untouched()
    assert outcome(kata, check=True) is SyncOutcome.SAME
    assert "NAME" not in kata.path.read_text() + kata.key_path.read_text()


def test_a_new_exercise_takes_the_next_number_of_its_track(repository: Repository) -> None:
    repository.add("double", number=7)
    repository.add("other", track="2_second", number=9)
    assert new_kata(repository.root, "1_first/triple").stem == "kata_08_triple"
    assert new_kata(repository.root, "1_first/fourfold").stem == "kata_09_fourfold"


@pytest.mark.parametrize(
    "place",
    ["softmax", "fusion/softmax", "2_fusion/", "2_fusion/Softmax", "2_fusion/a-b", "2_a/b/c", ""],
)
def test_a_malformed_place_is_told_with_an_example(repository: Repository, place: str) -> None:
    with pytest.raises(RepositoryError, match="TRACK/NAME, such as 2_fusion/row_softmax") as raised:
        new_kata(repository.root, place)
    assert repr(place) in str(raised.value)
    assert not any((repository.root / "solutions").iterdir())


def test_a_name_is_given_once(repository: Repository) -> None:
    kata = repository.add("double")
    with pytest.raises(RepositoryError, match=f"double is taken: {kata.id}"):
        new_kata(repository.root, "2_fusion/double")


def test_a_keyword_is_no_name(repository: Repository) -> None:
    with pytest.raises(RepositoryError):
        new_kata(repository.root, "2_fusion/lambda")
