"""`kata tasks` and `kata grade`, from JSON lines to JSON lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from grader.batch.batch_run import Batch
from grader.batch.executor import Outcome
from grader.cli import main
from grader.sandbox.isolation import confine
from tests.support.repositories import Repository, Shop

RIGHT = Repository.BODY
WRONG = "o_ref[...] = x_ref[...] * 3"


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def sampled(shop: Shop, *completions: object, more: str = "") -> Path:
    """A file of samples for `double`."""
    file = shop.root / "samples.jsonl"
    rows = [json.dumps({"task_id": shop.double.id, "completion": each}) for each in completions]
    file.write_text("".join(f"{row}\n" for row in rows) + more)
    return file


def test_tasks_are_written_for_those_that_match(shop: Shop) -> None:
    assert shop.run("tasks", "row", "--out", "tasks.jsonl") == "wrote 2 tasks to tasks.jsonl\n"
    found = lines_of(shop.root / "tasks.jsonl")
    assert [one["entry_point"] for one in found] == ["row_sum", "row_max"]
    assert shop.row_sum.stub_text() in found[0]["prompt"]


def test_samples_are_judged_each_once(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Right, wrong, the same again, and a line that is none: then all of it from the store."""
    samples = sampled(shop, RIGHT, WRONG, [RIGHT], shop.double.stub_text(), "", more="{\n")
    words = ("grade", str(samples), "--out", "results.jsonl", "--isolation=auto", "--seed=1")
    first = shop.run(*words, "--workers=1", code=1)
    rows = lines_of(shop.root / "results.jsonl")
    assert "3 submissions to judge, 0 in the store" in first
    assert [row["state"] for row in rows] == ["passed", "failed", "passed", "todo", "failed"]
    assert [row["finding"] and row["finding"]["check"] for row in rows] == [
        *(None, "values", None, None, "runs")
    ]
    assert rows[0] == {**rows[2], "completion": RIGHT}
    assert rows[0]["seed"] == 1
    assert rows[0]["versions"]["jax"]
    assert "pass@1" in first
    assert "0.400" in first

    monkeypatch.setattr(Batch, "judge", _nothing)
    again = shop.run(*words, code=1)
    assert "0 submissions to judge, 3 in the store" in again
    assert lines_of(shop.root / "results.jsonl") == rows


@pytest.mark.parametrize("how", ["auto", "off"])
def test_a_batch_says_once_that_it_is_not_isolated(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Wherever its workers are: each verdict says how it was reached."""
    unable = json.dumps({"isolation": "not isolated: only Linux has Landlock and seccomp"})
    able = json.dumps({"isolation": "isolated: landlock 7 + seccomp"})
    reached = [Outcome("", "", verdict) for verdict in (able, unable, unable, "")]
    monkeypatch.setattr(Batch, "judge", lambda *_: (outcome for outcome in reached))
    sampled(shop, RIGHT)
    words = ("grade", "samples.jsonl", "--out", "r.jsonl", f"--isolation={how}")
    assert shop.run(*words).count("not isolated: only Linux") == 1
    reached[1:] = []
    assert "not isolated" not in shop.run(*words)


def _nothing(_batch: Batch, jobs: list[object]) -> Any:
    assert not jobs
    yield from ()


def test_bad_lines_are_told_with_their_numbers(shop: Shop) -> None:
    sampled(shop, "", more='{x\n{"task_id": "nobody", "completion": "x"}\n')
    assert main(["grade", "samples.jsonl", "--out", "r.jsonl", "--isolation=auto"]) == 1
    assert shop.capture.readouterr().err.splitlines() == [
        "samples.jsonl: line 1: the completion is empty",
        "samples.jsonl: line 2: isn't valid JSON (Expecting property name enclosed in double "
        "quotes at character 2)",
        "samples.jsonl: line 3: unknown task 'nobody'",
    ]


def test_a_store_keeps_its_seed(shop: Shop) -> None:
    sampled(shop, "")
    words = ("grade", "samples.jsonl", "--out", "r.jsonl", "--isolation=auto")
    seeds = {shop.run(*words, code=1).split(":")[0] for _ in range(2)}
    assert len(seeds) == 1
    assert "seed 5:" in shop.run(*words, "--seed=5", code=1)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("samples.jsonl", "--out", "samples.jsonl"), "must be different files"),
        (("samples.jsonl", "--out", "r.jsonl", "--store", "./r.jsonl"), "different files"),
        (("nothing.jsonl", "--out", "r.jsonl", "--isolation=auto"), "No such file"),
        (("empty.jsonl", "--out", "r.jsonl", "--isolation=auto"), "empty.jsonl is empty"),
        ((".", "--out", "r.jsonl", "--isolation=auto"), "is a folder"),
        (("samples.jsonl", "--out", "katas", "--isolation=auto"), "is a folder"),
    ],
    ids=("over-the-samples", "over-the-results", "no-file", "no-samples", "folder", "to-folder"),
)
def test_wrong_files_are_told(shop: Shop, words: tuple[str, ...], says: str) -> None:
    sampled(shop, RIGHT)
    Path("empty.jsonl").write_text("\n \n")
    assert says in shop.run("grade", *words, code=2)


def test_strangers_code_needs_isolation(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    sampled(shop, RIGHT)
    monkeypatch.setattr(confine.sys, "platform", "elsewhere")
    told = shop.run("grade", "samples.jsonl", "--out", "r.jsonl", code=2)
    assert "isolation is required" in told
    assert "--isolation auto grades anyway" in told
