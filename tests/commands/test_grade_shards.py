"""`kata grade --shard` and `--merge`: what several runs judge is what one would have judged."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from grader.batch.executor import Outcome, Setup, SubmissionJob
from grader.cli import main
from grader.commands import grade
from tests.support.repositories import Shop

LENGTHS = range(1, 8)


class Judges:
    """A executor that gives stars by length, and starts no process."""

    def outcomes(self, jobs: Iterable[SubmissionJob]) -> Iterator[Outcome]:
        for job in jobs:
            stars = len(job.source) % 4
            verdict = {"state": "passed" if stars else "failed", "stars": stars, "seed": job.seed}
            yield Outcome(job.key, job.kata, json.dumps(verdict))


@pytest.fixture(autouse=True)
def judged_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def hire(_setup: Setup) -> contextlib.nullcontext[Judges]:
        return contextlib.nullcontext(Judges())

    monkeypatch.setattr(grade, "hire_executor", lambda _options: hire)


@pytest.fixture
def samples(shop: Shop) -> Path:
    """Two lines of each text, and one that is none."""
    file = shop.root / "samples.jsonl"
    rows = [{"task_id": shop.double.id, "completion": "x" * size} for size in LENGTHS]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in [*rows, *rows]) + "{\n")
    return file


def graded(shop: Shop, *words: str, code: int = 0) -> str:
    return shop.run("grade", "samples.jsonl", "--isolation=auto", *words, code=code)


@pytest.mark.usefixtures("samples")
def test_shards_come_together_to_what_one_run_writes(shop: Shop) -> None:
    whole = graded(shop, "--seed=7", "--out=whole.jsonl", code=1)
    for number in (1, 2, 3):
        out = f"--out=part-{number}.jsonl"
        graded(shop, "--seed=7", f"--shard={number}/3", out, code=int(number == 1))
    lines = [len(Path(f"part-{number}.jsonl").read_text().splitlines()) for number in (1, 2, 3)]
    assert sum(lines) == 2 * len(LENGTHS)
    assert all(count % 2 == 0 for count in lines)
    stores = [f"part-{number}.jsonl.sqlite" for number in (1, 2, 3)]
    merged = graded(shop, "--merge", *stores, "--out=merged.jsonl", code=1)
    assert Path("merged.jsonl").read_text() == Path("whole.jsonl").read_text()
    assert f"merged 3 stores, with verdicts on {len(LENGTHS)} submissions" in merged
    assert merged.splitlines()[2:] == whole.splitlines()[2:]
    assert "0 submissions to judge" in graded(shop, "--out=merged.jsonl", code=1)


def test_what_is_missing_is_told_with_its_shard(shop: Shop, samples: Path) -> None:
    graded(shop, "--seed=7", "--shard=2/3", "--out=part.jsonl")
    there = samples.read_text().splitlines()
    kept = {json.loads(row)["completion"] for row in Path("part.jsonl").read_text().splitlines()}
    lacking = [
        n for n, row in enumerate(there[:-1], 1) if json.loads(row)["completion"] not in kept
    ]
    told = complaints(shop, "--merge", "part.jsonl.sqlite", "--out=merged.jsonl")
    assert "line 15: isn't valid JSON" in told[0]
    form = r"samples.jsonl: lines ([0-9, ]*): no verdict: run --shard (./3) .*"
    found = [part for part in (re.fullmatch(form, line) for line in told[1:]) if part]
    assert [part[2] for part in found] == ["1/3", "3/3"]
    assert sorted(int(line) for part in found for line in part[1].split(", ")) == lacking


@pytest.mark.usefixtures("samples")
def test_what_no_store_has_is_told(shop: Shop) -> None:
    graded(shop, "--seed=7", "--out=whole.jsonl", code=1)
    Path("samples.jsonl").write_text(json.dumps({"task_id": shop.double.id, "completion": "new"}))
    told = complaints(shop, "--merge", "whole.jsonl.sqlite", "--out=other.jsonl")
    assert told == ["samples.jsonl: line 1: no store has a verdict"]


def complaints(shop: Shop, *words: str) -> list[str]:
    """What is said on stderr of lines that could not be graded."""
    assert main(("grade", "samples.jsonl", *words)) == 1
    return shop.capture.readouterr().err.splitlines()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--shard=1/2",), "--shard needs --seed"),
        (("--shard=1/2", "--merge", "x"), "give --shard or --merge, not both"),
        (("--merge", "x"), "the store x doesn't exist"),
        (("--merge", "r.jsonl.sqlite"), "into itself"),
        (("--merge", "old.sqlite", "--seed=8"), "but the stores have seed 7"),
    ],
    ids=("no-seed", "both", "no-store", "itself", "other-seed"),
)
@pytest.mark.usefixtures("samples")
def test_wrong_options_are_told(shop: Shop, words: tuple[str, ...], says: str) -> None:
    graded(shop, "--seed=7", "--out=r.jsonl", "--store=old.sqlite", code=1)
    assert says in graded(shop, *words, "--out=r.jsonl", code=2)


@pytest.mark.parametrize("shard", ["3/2", "0/1", "1/0", "one"])
def test_no_shard_is_told(shop: Shop, shard: str) -> None:
    with pytest.raises(SystemExit):
        shop.run("grade", "samples.jsonl", f"--shard={shard}", "--out=r.jsonl")
    assert "isn't a shard" in shop.capture.readouterr().err
