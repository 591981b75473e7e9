"""What takes turns in CI: everything has its turn, and what has changed lately does not wait."""

from __future__ import annotations

from collections import Counter

from grader.exercise.cases import draw
from grader.exercise.catalog import katas
from tests.support.contract import TURNS, Plan, Share
from tests.support.repositories import ROOT
from tests.support.turns import Turn, changed

EVERY = katas(ROOT, "solutions")
ENDS = (Share.OLDEST, Share.NEWEST)
MISTAKES = {(kata.id, mistake.title) for kata in EVERY for mistake in kata.key.mistakes}


def graded(turn: Turn) -> list[tuple[str, str]]:
    """The mistakes that both ends of jax grade."""
    plans = [Plan(end, (1,), False, turn) for end in ENDS]
    return [(kata.id, one.title) for plan in plans for kata, one in plan.mistakes(EVERY)]


def test_each_mistake_has_one_turn() -> None:
    counted = Counter(one for number in range(TURNS) for one in graded(Turn(number)))
    assert set(counted) == MISTAKES
    assert set(counted.values()) == {1}


def test_what_has_changed_lately_is_graded_whole() -> None:
    new = EVERY[-1].id
    found = set(graded(Turn(1, frozenset({new}))))
    assert {one for one in MISTAKES if one[0] == new} <= found
    assert len(found) < len(MISTAKES) / 2


def test_each_exercise_has_a_turn_to_be_looked_at() -> None:
    found = [Plan(Share.OLDEST, (1,), False, Turn(n)).katas(EVERY) for n in range(TURNS)]
    assert Counter(kata.id for part in found for kata in part) == Counter(k.id for k in EVERY)
    turn = Turn(0, frozenset({EVERY[1].id, EVERY[2].id}))
    assert set(EVERY[:3]) <= set(Plan(Share.OLDEST, (1,), False, turn).katas(EVERY))


def test_each_case_of_a_solution_has_its_turn() -> None:
    for kata in EVERY:
        cases = draw(kata.id, kata.key, 1)
        run = sum(not case.production for case in cases)
        turns = [Turn(number) for number in range(max(run, 1) * TURNS)]
        plans = [[Plan(end, (1,), False, turn) for end in ENDS] for turn in turns]
        found = [[plan.cases(kata, cases) for plan in both] for both in plans]
        indices = {case.index for both in found for one in both for case in one}
        assert indices == set(range(len(cases)))
        for oldest, newest in found:
            assert len({case.index for case in (*oldest, *newest)}) == len(oldest) + len(newest)
            assert sum(not case.production for case in oldest) == min(run, 1)


def test_of_some_cases_one_is_run_and_that_of_production_size_shows_the_cost() -> None:
    for kata in EVERY:
        cases = draw(kata.id, kata.key, 1)
        run = [case for case in cases if not case.production]
        assert Plan(Share.OLDEST, (1,), False).some(cases, shows_cost=True) == cases
        for number, case in enumerate(run):
            plan = Plan(Share.OLDEST, (1,), False, Turn(number + 5 * len(run)))
            large = cases[len(run) :]
            found = plan.some(cases, shows_cost=True)
            assert list(found) == ([case, *large] if large else list(cases))


def test_where_no_cost_has_to_show_each_case_has_its_turn_alone() -> None:
    for kata in EVERY:
        cases = draw(kata.id, kata.key, 1)
        plans = [Plan(Share.OLDEST, (1,), False, Turn(n)) for n in range(len(cases))]
        found = [plan.some(cases, shows_cost=False) for plan in plans]
        assert [case for some in found for case in some] == list(cases)
        assert Plan(Share.OLDEST, (1,), False).some(cases, shows_cost=False) == cases


def test_a_solution_or_its_key_makes_a_change() -> None:
    names = ["solutions/1_basics/kata_01_one.toml", "solutions/1_basics/README.md", "tests/x.py"]
    assert "1_basics/kata_01_one" in changed(names)
    assert len(changed(names[1:])) <= 1
    assert changed(["solutions/2_fusion/kata_02_two.py", ""]) == {"2_fusion/kata_02_two"}
