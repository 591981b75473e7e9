"""A breach of the contract is told in sentences: which file, what is wrong, what to do about it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from grader.exercise.answer_key import Mistake
from grader.exercise.catalog import Kata
from grader.sandbox.client import WorkerClient
from pallascope.model import Check
from tests.course import test_contract as contract
from tests.course import test_session_coverage as sessions
from tests.course import test_verdicts as verdicts
from tests.support.contract import TOLD_BY_JAX, Plan, Share
from tests.support.repositories import Repository

NO_MISTAKE = Mistake("doubles by adding", "* 2", "+ x_ref[...]", Check.VALUES, "off by")


def broken(kata: Kata, check: Callable[[Kata], None]) -> str:
    with pytest.raises(pytest.fail.Exception) as failed:
        check(kata)
    return str(failed.value)


def edited(kata: Kata, file: Path, old: str, new: str) -> Kata:
    """The kata, read anew after a change of one of its files."""
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    return Kata(kata.root, kata.track, kata.stem)


def test_each_breach_names_its_file_and_a_remedy(repository: Repository) -> None:
    kata = repository.add("double")
    first = "1_first/kata_01_double"
    said = broken(kata, contract.test_key_holds_hints_and_mistakes)
    assert said.startswith(
        f"solutions/{first}.toml: it knows 0 [[mistakes]].\nAdd some: at least 3"
    )
    said = broken(kata, contract.test_docstring_teaches)
    assert said == f"solutions/{first}.py: its docstring has 1 lines.\nSay it in 20 to 60."
    kata = edited(kata, kata.path, "Double", "Triple")
    said = broken(kata, contract.test_file_equals_its_blanked_solution)
    assert said.startswith(f"katas/{first}.py: differs from its solution")
    assert "run `kata sync`" in said
    kata = edited(kata, kata.solution, "def test_double", "def test_it")
    said = broken(kata, contract.test_file_names_what_it_should)
    assert said.startswith(f"solutions/{first}.py: it defines no test_double.\n")
    kata = edited(kata, kata.key_path, '"b", "c"', '"a", "c"')
    assert "two hints are the same" in broken(kata, contract.test_key_holds_hints_and_mistakes)


def test_a_mistake_that_is_none_is_told_of(
    repository: Repository, asking: WorkerClient, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kata = repository.add("double")
    folder = tmp_path_factory.mktemp("wrong")

    def rejected(kata: Kata) -> None:
        plan = Plan(Share.WHOLE, (1,), False)
        verdicts.test_mistake_is_rejected(kata, NO_MISTAKE, 1, plan, asking, folder)

    said = broken(kata, rejected)
    assert said.startswith("solutions/1_first/kata_01_double.toml: the mistake 'doubles by adding'")
    assert "It is told:\nnothing: it passes every hidden case.\nCorrect `caught`" in said
    kata = edited(kata, kata.solution, "x_ref[...] * 2", "x_ref[...] * 2 * 2")
    said = broken(kata, rejected)
    assert "`old` of the mistake 'doubles by adding' occurs 2 times" in said


#: What a session has alike, by [cases]; the words that name it.
ALIKE = {
    'bm = [8, 16]\nM = ["2*bm"]\nN = [128, 256]': "M//bm is 2 in all cases of the session",
    'bm = [8, 24]\nM = ["2*bm", "bm"]\nN = [128, 256]': "M//bm is at most 2 in all cases",
    'bm = [8, 16]\nM = ["3*bm", "bm"]\nN = [16, 8]': "bm and N are equal in all cases",
    'bm = [8, 16]\nM = ["3*bm", "bm"]\nN = [128]': "N is 128 in all cases",
}


@pytest.mark.parametrize(("cases", "words"), ALIKE.items(), ids=["blocks", "few", "pair", "size"])
def test_what_a_session_has_alike_is_told(repository: Repository, cases: str, words: str) -> None:
    head, _, _ = Repository.KEY.partition("[cases]")
    key = f"{head}[cases]\n{cases}\n"
    kata = repository.add("double", key=key)
    said = broken(kata, sessions.test_no_session_has_sizes_alike)
    assert re.match(r"solutions/1_first/kata_01_double\.toml: with seed \d+, ", said)
    assert words in said
    what = said.rsplit('say under [alike] why it may be so: "')[-1].partition('"')[0]
    more = f'[alike]\n"{what}" = "it is a test"\n'
    allowed = edited(kata, kata.key_path, "[cases]", f"{more}[cases]")
    sessions.test_no_session_has_sizes_alike(allowed)
    needless = edited(kata, kata.key_path, "[alike]", '[alike]\n"bm" = "it is a test"')
    said = broken(needless, sessions.test_no_session_has_sizes_alike)
    assert "no session has alike what [alike] allows: bm.\nDelete the entry" in said


def test_the_newest_jax_grades_a_case_of_each_exercise_and_what_jax_words() -> None:
    whole, newest = Share.WHOLE.mistakes(verdicts.EVERY), Share.NEWEST.mistakes(verdicts.EVERY)
    assert set(map(_name, newest)) < set(map(_name, whole))
    assert sum(len(kata.key.mistakes) for kata in verdicts.EVERY) == len(whole)
    assert {mistake.caught for _, mistake in newest} <= set(TOLD_BY_JAX)
    assert list(Share.NEWEST.stubs(verdicts.EVERY)) == []
    for kata in verdicts.EVERY:
        cases = verdicts.draw(kata.id, kata.key, 1)
        assert Share.WHOLE.cases(cases) == cases
        (one,) = Share.NEWEST.cases(cases)
        assert one in cases
        assert not one.production or all(case.production for case in cases)


@pytest.mark.parametrize("shows_cost", [True, False])
def test_a_variant_is_graded_on_one_case_and_on_those_that_show_its_cost(shows_cost: bool) -> None:
    brief, full = Plan(Share.WHOLE, (1,), False), Plan(Share.WHOLE, (1,), True)
    for kata in verdicts.EVERY:
        cases = verdicts.draw(kata.id, kata.key, 1)
        some = brief.some(kata, cases, shows_cost=shows_cost)
        large = [case for case in cases if case.production]
        assert full.some(kata, cases, shows_cost=shows_cost) == cases
        if not shows_cost:
            assert len(some) == 1
        elif large:
            assert [case for case in some if case.production] == large
            assert len(some) == len(large) + (len(cases) > len(large))
        else:
            assert some == cases


def _name(pair: tuple[Kata, Mistake]) -> str:
    kata, mistake = pair
    return re.sub(r"\W", "", f"{kata.id}{mistake.title}")
