"""`kata grade --ray`: what is told where it can't be, and what is asked for where it can."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grader.batch import ray_cluster
from grader.batch.executor import Outcome, Setup, SubmissionJob
from grader.batch.ray_cluster import NoCluster
from grader.cli import main
from tests.support.repositories import Shop


@pytest.fixture
def words(shop: Shop) -> list[str]:
    """A command about one sample."""
    row = {"task_id": shop.double.id, "completion": shop.double.stub_text()}
    (shop.root / "samples.jsonl").write_text(json.dumps(row))
    return ["grade", "samples.jsonl", "--out", "r.jsonl", "--seed=1"]


def test_what_it_replaces_may_not_be_given_as_well(shop: Shop, words: list[str]) -> None:
    assert main([*words, "--ray=auto", "--shard=1/2"]) == 2
    assert "a cluster shares out the samples itself" in shop.capture.readouterr().err
    assert main([*words, "--ray=auto", "--merge", "store.sqlite"]) == 2
    assert "give --ray or --merge, not both: " in shop.capture.readouterr().err
    assert not (shop.root / "r.jsonl").exists()


def test_without_ray_it_is_told_in_a_line(
    shop: Shop, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> Any:
        raise NoCluster("--ray needs Ray")

    monkeypatch.setattr(ray_cluster, "imported", missing)
    assert main([*words, "--ray=auto"]) == 2
    assert shop.capture.readouterr().err == "kata: --ray needs Ray\n"
    assert not (shop.root / "r.jsonl").exists()


class Recording:
    """A executor that fails every submission."""

    def outcomes(self, jobs: list[SubmissionJob]) -> Iterator[Outcome]:
        for job in jobs:
            yield Outcome(job.key, job.kata, error="as agreed")


@pytest.mark.parametrize(("more", "count"), [((), None), (("--workers=7",), 7)])
def test_the_crew_is_of_the_address_and_as_large_as_asked_for(
    shop: Shop, words: list[str], monkeypatch: pytest.MonkeyPatch, more: Any, count: int | None
) -> None:
    asked: list[Any] = []

    @contextlib.contextmanager
    def hired(setup: Setup, address: str, number: int | None, tell: Any) -> Iterator[Recording]:
        asked.append((Path(setup.root), address, number))
        yield Recording()

    monkeypatch.setattr(ray_cluster, "ray_executor", hired)
    monkeypatch.setattr(ray_cluster, "demand", lambda address: None)
    assert main([*words, "--ray=head:6379", *more]) == 1
    assert asked == [(shop.root, "head:6379", count)]
    assert "samples.jsonl: line 1: not graded: as agreed" in shop.capture.readouterr().err


def test_no_worker_is_no_number_of_workers(shop: Shop, words: list[str]) -> None:
    with pytest.raises(SystemExit):
        main([*words, "--workers=0"])
    assert "must be at least 1" in shop.capture.readouterr().err
