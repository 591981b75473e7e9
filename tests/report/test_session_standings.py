"""From grades to standings: the worst case decides, the first failure comes next."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.exercise.catalog import Kata
from grader.report.session_standings import standings
from grader.verdict import Grade, State
from pallascope.model import Check, Finding, NotJudged
from tests.support.repositories import Repository

A, B, C = (Kata(Path("/nowhere"), "1_first", f"kata_0{i}_{name}") for i, name in enumerate("abc"))
D = Kata(Path("/nowhere"), "2_second", "kata_01_d")
E = Kata(Path("/nowhere"), "2_second", "kata_02_e")
POOL = (A, B, C, D)
OFF = Finding(Check.VALUES, "off by one", "all of it")
SHAPE = Finding(Check.BLOCKS, "block too small", "all of it")


def passed(kata: Kata, case: int = 0) -> Grade:
    return Grade(kata.id, case, State.PASSED, 2, seconds=0.5)


def failed(kata: Kata, case: int = 0, stars: int = 0, finding: Finding = OFF) -> Grade:
    return Grade(kata.id, case, State.FAILED, stars, finding, seconds=0.5)


def todo(kata: Kata, case: int = 0) -> Grade:
    return Grade(kata.id, case, State.TODO, 0, seconds=0.5)


@pytest.mark.parametrize(
    ("grades", "state", "stars", "phrase"),
    [
        ([passed(A), passed(A, 1)], State.PASSED, 2, ""),
        ([passed(A), failed(A, 1, 1), passed(A, 2)], State.FAILED, 1, "values: off by one"),
        ([passed(A), todo(A, 1)], State.TODO, 0, "todo"),
        ([todo(A), failed(A, 1)], State.FAILED, 0, "values: off by one"),
        (
            [failed(A, 0, 1, SHAPE), failed(A, 1), failed(A, 2, 1, SHAPE)],
            State.FAILED,
            0,
            "values: off by one",
        ),
        (
            [failed(A, 2, 1), failed(A, 1, 1, SHAPE)],
            State.FAILED,
            1,
            "blocks: block too small",
        ),
    ],
    ids=["passed", "one-failed", "one-todo", "failed-and-todo", "fewest-stars", "first-case"],
)
def test_the_worst_case_decides(grades: list[Grade], state: State, stars: int, phrase: str) -> None:
    (standing,) = standings(POOL, grades).all
    assert standing.kata == A
    assert (standing.state, standing.stars, standing.phrase) == (state, stars, phrase)
    assert standing.cases == len(grades)
    assert standing.seconds == 0.5 * len(grades)


def test_what_could_not_be_judged_at_all_is_not_solved() -> None:
    why = NotJudged(Check.RUNS, "a package is missing")
    nothing = Grade(A.id, 0, State.PASSED, 0, not_judged=why)
    first = Grade(B.id, 0, State.PASSED, 1, not_judged=NotJudged(Check.COMPILES, why.why))
    one, other = standings(POOL, [nothing, first]).all
    assert (one.solved, other.solved) == (False, True)


def test_a_failed_case_has_its_stars_beside_one_that_could_not_be_judged() -> None:
    unjudged = Grade(A.id, 0, State.PASSED, 0, not_judged=NotJudged(Check.COMPILES, "no libtpu"))
    (standing,) = standings(POOL, [unjudged, failed(A, 1, 1, SHAPE)]).all
    assert (standing.state, standing.stars) == (State.FAILED, 1)


def test_a_check_is_named_in_words() -> None:
    finding = Finding(Check.PALLAS_USED, "add stands outside", "")
    (standing,) = standings(POOL, [failed(A, finding=finding)]).all
    assert standing.phrase == "pallas used: add stands outside"


def test_tracks_keep_the_order_of_the_exercises_whatever_that_of_the_grades() -> None:
    session = standings((*POOL, E), [todo(E), passed(D), failed(C), passed(A)])
    assert [track.name for track in session.tracks] == ["1_first", "2_second"]
    first, second = session.tracks
    assert [standing.kata for standing in first.standings] == [A, C]
    assert (first.solved, first.not_run) == (1, 1)
    assert (second.solved, second.not_run) == (1, 0)
    assert [standing.kata for standing in session.all] == [A, C, D, E]


def test_a_track_of_which_nothing_ran_is_left_out() -> None:
    assert [track.name for track in standings(POOL, [todo(D)]).tracks] == ["2_second"]
    assert standings(POOL, []).tracks == ()
    assert standings(POOL, []).next is None


def test_grades_of_no_exercise_here_are_left_out() -> None:
    gone = Kata(Path("/nowhere"), "1_first", "kata_09_gone")
    assert standings(POOL, [passed(gone)]).tracks == ()


@pytest.mark.parametrize(
    ("grades", "following"),
    [
        ([todo(A), failed(B), failed(C)], B),
        ([todo(A), passed(B), failed(D)], D),
        ([passed(A), todo(B), todo(C)], B),
        ([passed(A), passed(D)], None),
    ],
    ids=["first-failed", "failed-before-todo", "first-todo", "nothing"],
)
def test_what_comes_next(grades: list[Grade], following: Kata | None) -> None:
    next_standing = standings(POOL, grades).next
    assert (next_standing.kata if next_standing else None) == following


def test_cases_that_did_not_run_are_told(repository: Repository) -> None:
    kata = repository.add("double")  # its key asks for three
    (some,) = standings([kata], [passed(kata), passed(kata, 2)]).all
    assert some.phrase == "★★ so far: 2 of 3 hidden cases ran"
    assert not some.solved
    assert some.stars == 0
    (every,) = standings([kata], [passed(kata, case) for case in range(3)]).all
    assert every.phrase == ""
    assert every.solved
    assert every.stars == 2


def test_a_region_that_is_left_is_named(repository: Repository) -> None:
    kata = repository.add("two")
    kata.key_path.write_text(kata.key_path.read_text().replace('"double it"', '"x2", "rows"'))
    kata = Kata(kata.root, kata.track, kata.stem)
    rows = "    rows = pl.BlockSpec((bm, x.shape[1]), lambda i: (i, 0))\n"
    fenced = f"    # BEGIN SOLUTION\n{rows}    # END SOLUTION\n"
    text = kata.solution.read_text().replace(rows, fenced)
    kata.solution.write_text(text)
    kata.path.write_text(kata.stub_text())

    def phrase() -> str:
        (one,) = standings([kata], [todo(kata)]).all
        return one.phrase

    assert phrase() == "todo"
    lines = kata.path.read_text().splitlines()
    assert kata.location() == ("katas/1_first/kata_01_two.py", 14)
    kata.path.write_text(kata.stub_text().replace('raise NotImplementedError("x2")', "pass"))
    left = 1 + next(n for n, line in enumerate(lines) if '"rows"' in line)
    assert phrase() == f"1 of 2 regions done; left: line {left}"
    assert kata.location() == ("katas/1_first/kata_01_two.py", left)
    kata.path.write_text(text)
    assert phrase() == "todo"
    assert kata.location() == ("katas/1_first/kata_01_two.py", 14)
