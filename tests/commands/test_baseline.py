"""`kata baseline`: what it writes, `kata grade` grades, and it compares."""

from __future__ import annotations

import json

from tests.support.repositories import Shop


def test_a_baseline_is_written_graded_and_compared(shop: Shop) -> None:
    told = shop.run("baseline", "double", "--out", "samples.jsonl")
    count = 1 + len(shop.double.key.mistakes)
    assert told == f"wrote {count} samples to samples.jsonl\n"
    grade = ("--out", "results.jsonl", "--isolation=auto", "--workers=1")
    shop.run("grade", "samples.jsonl", *grade)
    assert f"all {count} {count} {count}" in " ".join(
        shop.run("baseline", "--compare", "results.jsonl").split()
    )


def test_what_came_out_otherwise_is_told(shop: Shop) -> None:
    shop.run("baseline", "double", "--out", "samples.jsonl")
    rows = [json.loads(line) for line in (shop.root / "samples.jsonl").read_text().splitlines()]
    for row in rows:
        row |= {"stars": 0, "finding": {"check": "runs", "phrase": "is broken"}}
    text = "".join(f"{json.dumps(row)}\n" for row in rows)
    (shop.root / "results.jsonl").write_text(text)
    told = shop.run("baseline", "--compare", "results.jsonl", code=1)
    assert f"{shop.double.id}: solution (the solution): 0 stars; is broken" in told


def test_what_holds_no_results_is_told(shop: Shop) -> None:
    shop.run("baseline", "double", "--out", "samples.jsonl")
    assert "these are samples" in shop.run("baseline", "--compare", "samples.jsonl", code=2)
    (shop.root / "results.jsonl").write_text("{}\n")
    assert "none of the results" in shop.run("baseline", "--compare", "results.jsonl", code=2)
    (shop.root / "results.jsonl").write_text("{\n")
    assert "isn't valid JSONL" in shop.run("baseline", "--compare", "results.jsonl", code=2)
