"""Marks for what models answer."""

from __future__ import annotations

import asyncio
import copy
import gc
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.batch.evaluation import Evaluation, Marks
from grader.exercise.catalog import katas
from grader.exercise.mutants import wrong_version
from grader.exercise.repository import RepositoryError
from tests.support.repositories import ROOT

ADD = next(kata for kata in katas(ROOT, "solutions") if kata.name == "constant_add")
SOLUTION = ADD.solution.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def evaluation() -> Iterator[Evaluation]:
    evaluation = Evaluation("constant_add", isolation="auto", workers=1, root=ROOT)
    yield evaluation
    evaluation.close()


def test_tasks_are_those_that_match(evaluation: Evaluation) -> None:
    (one,) = evaluation.tasks
    assert one["task_id"] == ADD.id
    assert ADD.stub_text() in one["prompt"]


def test_answers_are_marked_at_once_and_in_their_order(evaluation: Evaluation) -> None:
    wrong = wrong_version(SOLUTION, ADD.key.mistakes[0])
    answers = (SOLUTION, f"So:\n```python\n{wrong}```\n", "I can't do that.", "```sh\nls\n```")

    async def all_of_them() -> list[Marks]:
        return await asyncio.gather(*(evaluation.mark(ADD.id, each) for each in answers))

    right, mistaken, prose, shell = asyncio.run(all_of_them())
    assert (right.right, right.format, right.source) == (1, 1, SOLUTION)
    assert right.reward == pytest.approx((right.right + right.accepted + right.speed) / 3)
    assert right.stars in (1, 3)  # one without libtpu
    assert (mistaken.reward, mistaken.format, mistaken.source) == (0, 1, wrong)
    assert mistaken.told.startswith(ADD.key.mistakes[0].caught.value)
    assert (prose.reward, prose.format) == (0, 0)
    assert (shell.reward, shell.format, shell.source) == (0, 0, None)
    assert shell.told == "the answer has code blocks, but none of them is Python"
    assert len({marks.seed for marks in (right, mistaken, prose, shell)}) == 1


def test_a_copy_shares_the_processes(evaluation: Evaluation) -> None:
    assert copy.deepcopy({"by": evaluation})["by"] is evaluation


def test_it_ends_with_whoever_used_it() -> None:
    one = Evaluation("constant_add", isolation="auto", root=ROOT)
    closed = one.close
    seen = weakref.ref(one)
    del one
    gc.collect()
    assert seen() is None
    assert not closed.alive


def test_seeds_differ() -> None:
    seeds = {Evaluation(isolation="auto", root=ROOT).seed for _ in range(3)}
    assert len(seeds) == 3


def test_what_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(RepositoryError, match="no kata matches 'nothing'"):
        Evaluation("nothing", isolation="auto", root=ROOT)
    with pytest.raises(RepositoryError, match="there are no katas"):
        Evaluation(isolation="auto", root=tmp_path)
    with pytest.raises(ValueError, match="no chip 'v0'"):
        Evaluation(chip="v0", isolation="auto", root=ROOT)
    with pytest.raises(ValueError, match="at least one Examiner"):
        Evaluation(isolation="auto", workers=0, root=ROOT)
