"""Samples on their way through a store: what is kept, and what is judged again."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from grader.batch.batch_run import Batch, How
from grader.batch.executor import Outcome, Setup, SubmissionJob
from grader.batch.samples import Sample
from grader.batch.store import Store, StoreProblem
from grader.exercise.catalog import katas
from tests.support.repositories import ROOT

ADD = next(kata for kata in katas(ROOT, "solutions") if kata.name == "constant_add")
SAMPLE = Sample(1, {"task_id": ADD.id}, ADD.id, "text")


@dataclass(frozen=True, slots=True)
class Executor:
    """Answers each job with one verdict, which an accident may have decided."""

    stars: int
    accident: bool

    def outcomes(self, jobs: Iterable[SubmissionJob]) -> Iterator[Outcome]:
        verdict = json.dumps({"stars": self.stars})
        return (Outcome(job.key, job.kata, verdict, accident=self.accident) for job in jobs)


def batch(store: Store, executor: Executor) -> Batch:
    def hire(_setup: Setup) -> contextlib.nullcontext[Executor]:
        return contextlib.nullcontext(executor)

    return Batch(ROOT, {ADD.id: ADD}, [SAMPLE], store, How("v5e", "off"), hire)


def test_a_verdict_that_an_accident_decided_is_judged_again(tmp_path: Path) -> None:
    with Store(tmp_path / "store.sqlite") as store:
        first = batch(store, Executor(0, accident=True))
        assert len(list(first.judge(first.waiting()))) == 1
        assert [row["stars"] for row in first.rows()] == [0]
        assert (first.missing(), len(store)) == ([], 0)
        second = batch(store, Executor(3, accident=False))
        assert len(list(second.judge(second.waiting()))) == 1
        assert [row["stars"] for row in second.rows()] == [3]
        assert len(store) == 1
        assert batch(store, Executor(0, accident=False)).waiting() == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("update settings set value = 'seven' where name = 'seed'", "seed 'seven' isn't a whole"),
        ("update settings set value = '7.5' where name = 'seed'", "seed '7.5' isn't a whole"),
        ("update settings set value = '[]' where name = 'terms'", "has no valid terms"),
        ("update settings set value = '{' where name = 'terms'", "has no valid terms"),
        ("update verdicts set verdict = 'three stars'", "'three stars' isn't a JSON object"),
        ("update verdicts set verdict = '3'", "'3' isn't a JSON object"),
        ("drop table verdicts", "no such table"),
    ],
)
def test_a_damaged_store_is_named(change: str, says: str, tmp_path: Path) -> None:
    with Store(tmp_path / "store.sqlite") as store:
        whole = batch(store, Executor(3, accident=False))
        list(whole.judge(whole.waiting()))
        store._database.execute(change)
        with pytest.raises(StoreProblem, match=r"store\.sqlite") as raised:
            _read_all(store)
        assert says in str(raised.value)


def _read_all(store: Store) -> None:
    assert store.terms()
    batch(store, Executor(3, accident=False)).rows()
