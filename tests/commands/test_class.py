"""`kata class report`, and `kata grade --repositories`."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from grader.batch.executor import SubmissionJob
from tests.support.classrooms import ClassOf
from tests.support.fake_executor import judging
from tests.support.repositories import Shop

EVIL = "<script>alert(1)</script>"


def verdict(job: SubmissionJob) -> dict[str, Any]:
    """Right is what doubles; what triples is wrong by an amount, and the rest doesn't run."""
    if "_ref[...] * 2" in job.source:
        return {"state": "passed", "stars": 3, "reward": 1.0, "finding": None, "seed": job.seed}
    amount = len(job.source)
    finding = {"check": "values", "phrase": f"off by {amount}", "message": "…"}
    if EVIL in job.source:
        finding = {"check": "runs", "phrase": f"=1+1 {EVIL}", "message": "…"}
    return {"state": "failed", "stars": 0, "reward": 0.0, "finding": finding, "seed": job.seed}


@pytest.fixture
def pupils(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClassOf:
    """One has solved two, two are wrong in one way, one lies, and one has done nothing."""
    judging(monkeypatch, verdict)
    found = ClassOf(shop, tmp_path / "class")
    for student in ("ada", "bob", "cleo", "dave", "eve"):
        found.join(student)
    found.passed("ada", shop.double)
    found.write("ada", shop.row_sum)
    found.write("bob", shop.double, "o_ref[...] = x_ref[...] * 3")
    found.write("cleo", shop.double, "o_ref[...] = x_ref[...] * 300")
    found.passed("dave", shop.double, body=f"raise ValueError('{EVIL}')")
    return found


def told(text: str) -> list[str]:
    """Lines, with single blanks in them."""
    return [" ".join(line.split()) for line in text.splitlines()]


def test_ledgers_alone(pupils: ClassOf) -> None:
    (pupils.folder / "empty").mkdir()
    said = told(pupils.shop.run("class", "report", str(pupils.folder)))
    assert said[0] == "5 students, 3 katas solved: median 0, 0 to 1"
    for line in (
        "student solved stars latest 1 2",
        "ada 1 3 2026-11-18 3~ ·",
        "bob 0 0 - ~· ·",
        "dave 1 3 2026-11-18 3· ·",
        "1 2 3 stars ~ edited, not passed · to do - no file",
        "double 2 50% bob, cleo",
        "row_sum 1 100% ada",
        "no clone of the course in empty",
    ):
        assert line in said
    assert not (pupils.folder / "verdicts.sqlite").exists()


def test_a_narrow_terminal_has_counts(pupils: ClassOf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    said = told(pupils.shop.run("class", "report", str(pupils.folder)))
    assert "ada 1 3 2026-11-18 1 ·" in said
    assert "solved in each track" in said


def test_only_those_that_are_asked_for(pupils: ClassOf) -> None:
    said = told(pupils.shop.run("class", "report", str(pupils.folder), "row_sum"))
    assert said[0].startswith("5 students, 1 katas")
    assert "ada 0 0 2026-11-18 ~" in said


def test_graded_anew(pupils: ClassOf, tmp_path: Path) -> None:
    page, rows = tmp_path / "report.html", tmp_path / "report.csv"
    arguments = ("--verify", "--isolation=auto", f"--html={page}", f"--csv={rows}")
    said = told(pupils.shop.run("class", "report", str(pupils.folder), *arguments, code=1))
    assert said[0].endswith("5 submissions to judge, 0 in the store")
    for line in (
        "double 2 values off by ",
        f"double 1 runs =1+1 {EVIL}",
        f"dave double ★★★ ☆☆☆ =1+1 {EVIL}",
        "ada row_sum ☆☆☆ ★★★",
    ):
        assert any(each.startswith(line) for each in said), line
    again = told(pupils.shop.run("class", "report", str(pupils.folder), *arguments, code=1))
    assert again[0].endswith("0 submissions to judge, 5 in the store")
    text = page.read_text(encoding="utf-8")
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    with open(rows, encoding="utf-8", newline="") as lines:
        found = {(row["student"], row["kata"]): row for row in csv.DictReader(lines)}
    assert len(found) == 5 * 3
    lie = found["dave", pupils.shop.double.id]
    assert (lie["stars"], lie["graded"], lie["finding"]) == ("3", "0", f"'=1+1 {EVIL}")
    assert found["eve", pupils.shop.double.id]["graded"] == ""


def test_repositories_are_graded_like_samples(pupils: ClassOf, tmp_path: Path) -> None:
    out, page = tmp_path / "results.jsonl", tmp_path / "results.html"
    arguments = (f"--repositories={pupils.folder}", f"--out={out}", "--isolation=auto")
    said = pupils.shop.run("grade", *arguments, f"--html={page}", "--k=1")
    assert f"wrote {page}" in said.replace("\n", "")
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(row["student"], row["task_id"], row["claimed"], row["stars"]) for row in rows] == [
        ("ada", pupils.shop.double.id, 3, 3),
        ("ada", pupils.shop.row_sum.id, 0, 3),
        ("bob", pupils.shop.double.id, 0, 0),
        ("cleo", pupils.shop.double.id, 0, 0),
        ("dave", pupils.shop.double.id, 3, 0),
    ]
    text = page.read_text(encoding="utf-8")
    assert "<script>" not in text
    assert "5 samples of 2 katas." in text
    assert '<td class="number">0.625</td>' in text, "the mean over two katas of 1/4 and 1"


@pytest.mark.parametrize("words", [(), ("a.jsonl", "--repositories=b")])
def test_samples_or_repositories(shop: Shop, words: tuple[str, ...]) -> None:
    assert "give a file of samples, or --repositories" in shop.run(
        "grade", *words, "--out=r.jsonl", code=2
    )


def test_no_class(shop: Shop) -> None:
    assert "nowhere doesn't exist" in shop.run("class", "report", "nowhere", code=2)
    assert "is a clone of the course" in shop.run("class", "report", ".", code=2)


def test_a_file_that_is_no_text_is_told(pupils: ClassOf, capsys: pytest.CaptureFixture) -> None:
    file = pupils.folder / "eve" / "katas" / f"{pupils.shop.double.id}.py"
    file.write_bytes(b"\xff\xfe")
    arguments = ("--verify", "--isolation=auto", "--csv=rows.csv")
    pupils.shop.run("class", "report", str(pupils.folder), *arguments, code=1)
    (row,) = (line for line in Path("rows.csv").read_text().splitlines() if "UTF-8" in line)
    assert row.startswith(f"eve,{pupils.shop.double.id},edited,0,0,runs,the file isn't UTF-8")
