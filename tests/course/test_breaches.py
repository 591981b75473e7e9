"""A breach of the contract is told in sentences: which file, what is wrong, what to do about it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from grader.exercise.answer_key import Mistake
from grader.exercise.catalog import Kata
from grader.sandbox.client import WorkerClient
from grader.verdict import Check
from tests.course import test_contract as contract
from tests.course import test_sessions as sessions
from tests.course import test_verdicts as verdicts
from tests.support.contract import Plan, Share
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
    assert "`old` of the mistake 'doubles by adding' stands 2 times" in said


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


def test_the_share_of_the_newest_jax_is_a_part_of_the_whole() -> None:
    mistakes = [[_name(*pair) for pair in share.mistakes(verdicts.EVERY)] for share in Share]
    whole, newest = mistakes
    assert len(set(whole)) == len(whole)
    assert set(newest) < set(whole)
    cases = verdicts.draw(verdicts.EVERY[0].id, verdicts.EVERY[0].key, 1)
    assert Share.WHOLE.cases(cases) == cases
    assert list(Share.NEWEST.cases(cases)) == list(cases)[1::2]
    assert list(Share.WHOLE.stubs(verdicts.EVERY)) == list(verdicts.EVERY)
    assert not Share.NEWEST.stubs(verdicts.EVERY)


def test_of_some_cases_the_first_and_the_largest_show_the_cost() -> None:
    plan = Plan(Share.WHOLE, (1,), False)
    for kata in verdicts.EVERY:
        cases = verdicts.draw(kata.id, kata.key, 1)
        large = [case for case in cases[1:] if case.production]
        shown = plan.some(cases, shows_cost=True)
        assert list(shown) == ([cases[0], *large] if large else list(cases))
        assert list(plan.some(cases, shows_cost=False)) == [cases[0]]
        assert Plan(Share.WHOLE, (1,), True).some(cases, shows_cost=False) == cases


def _name(kata: Kata, mistake: Mistake) -> str:
    return re.sub(r"\W", "", f"{kata.id}{mistake.title}")
