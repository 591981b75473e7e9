"""`kata class report`, and `kata grade --repositories`."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from grader.batch.executor import SubmissionJob
from grader.exercise.catalog import KATAS
from grader.exercise.repository import matching
from grader.record.ledger import Pass, append_passes
from grader.tools.git import blob_id
from tests.support.classrooms import DAY, ClassOf
from tests.support.fake_executor import judging
from tests.support.repositories import ROOT, Shop

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


ROSTER = """name,login,email
Ada Byron,ada,ada@example.com
Dave,dave,dave@example.com
Zoe,zoe,zoe@example.com
"""


def test_a_roster(pupils: ClassOf, tmp_path: Path) -> None:
    Path("roster.csv").write_text(ROSTER + "ada byron,ADA,\n")
    page = tmp_path / "report.html"
    arguments = (str(pupils.folder), "--roster=roster.csv", f"--html={page}")
    said = told(pupils.shop.run("class", "report", *arguments))
    assert said[0] == "3 students, 3 katas solved: median 1, 0 to 1"
    for line in (
        "Ada Byron 1 3 2026-11-18 3~ ·",
        "Dave 1 3 2026-11-18 3· ·",
        "Zoe 0 0 - -- -",
        "Zoe: no repository (line 4 of the roster)",
        "roster: lines 2 and 5 have the same login; line 5 is left out",
        "not on the roster, and not counted: bob, cleo, eve",
    ):
        assert line in said
    text = page.read_text(encoding="utf-8")
    assert "no repository (line 4 of the roster)" in text
    assert "not counted: bob, cleo, eve" in text
    assert "points" not in text


def test_points(pupils: ClassOf) -> None:
    options = ("--roster=roster.csv", "--weight=first=2", "--weight=double=0.5")
    files = ("--csv=rows.csv", "--html=report.html", "--grades=grades.csv", "--format=moodle")
    Path("roster.csv").write_text(ROSTER)
    said = told(pupils.shop.run("class", "report", str(pupils.folder), *options, *files))
    assert "student solved stars points latest 1 2" in said
    assert "Ada Byron 1 3 1.5 2026-11-18 3~ ·" in said
    assert "wrote grades.csv: at most 10.5 points" in said
    assert Path("grades.csv").read_text().splitlines()[1:] == [
        "Ada,Byron,ada@example.com,1.5",
        "Dave,,dave@example.com,1.5",
        "Zoe,,zoe@example.com,0",
    ]
    with open("rows.csv", encoding="utf-8", newline="") as lines:
        found = {(row["student"], row["kata"]): row["points"] for row in csv.DictReader(lines)}
    assert found["Ada Byron", pupils.shop.double.id] == "1.5"
    assert found["Zoe", pupils.shop.double.id] == "0"
    assert '<td class="number">1.5</td>' in Path("report.html").read_text(encoding="utf-8")


def test_points_of_files_that_were_graded_again(pupils: ClassOf) -> None:
    """The row sum that the ledger lacks counts, and the lie doesn't."""
    Path("roster.csv").write_text(ROSTER)
    options = ("--roster=roster.csv", "--verify", "--isolation=auto")
    grades = ("--grades=grades.csv", "--format=canvas")
    said = told(pupils.shop.run("class", "report", str(pupils.folder), *options, *grades, code=1))
    assert said[0].endswith("3 submissions to judge, 0 in the store")
    assert Path("grades.csv").read_text().splitlines()[1:] == [
        "Points Possible,,,,,9",
        "Ada Byron,,,ada@example.com,,6",
        "Dave,,,dave@example.com,,0",
        "Zoe,,,zoe@example.com,,0",
    ]


def test_grades_have_the_students_of_all_rows(pupils: ClassOf) -> None:
    """Also those without an address, except for Moodle, which refuses them."""
    Path("roster.csv").write_text("name,login\nAda,ada\nBob,bob\n")
    arguments = (str(pupils.folder), "--roster=roster.csv", "--grades=grades.csv")
    pupils.shop.run("class", "report", *arguments, "--format=classroom")
    assert len(Path("grades.csv").read_text().splitlines()) == 3
    said = told(pupils.shop.run("class", "report", *arguments, "--format=moodle"))
    assert "no e-mail on the roster, so not in the grades: Ada, Bob" in said
    assert len(Path("grades.csv").read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--grades=g.csv", "--format=canvas"], "--grades needs --roster"),
        (["--grades=g.csv", "--roster=r.csv"], "give --grades and --format"),
        (["--format=canvas"], "give --grades and --format"),
        (
            ["--grades=r.csv", "--roster=./r.csv", "--format=canvas"],
            "must be different files",
        ),
        (["--roster=r.csv"], "r.csv: No such file or directory"),
        (["--weight=double"], "--weight double: needs NAME=NUMBER"),
        (["--weight=triple=2"], "matches 'triple'"),
        (["--until=soon"], "'soon' is not an ISO date or date-time"),
    ],
)
def test_options_that_are_wrong(pupils: ClassOf, options: list[str], message: str) -> None:
    assert message in pupils.shop.run("class", "report", str(pupils.folder), *options, code=2)


def test_git_is_needed_only_for_a_deadline(
    pupils: ClassOf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pupils.commit("ada", "2026-11-20")
    monkeypatch.setenv("PATH", str(tmp_path))
    folder = str(pupils.folder)
    assert "git is not installed" in pupils.shop.run(
        "class", "report", folder, "--until=2026-11-20", code=2
    )
    assert "ada 1 3 2026-11-18 3~ ·" in told(pupils.shop.run("class", "report", folder))


def test_thirty_clones_with_a_roster_and_a_deadline(shop: Shop, tmp_path: Path) -> None:
    """One history, in which each clone is at one of three commits; two clones are broken."""
    pupils = ClassOf(shop, tmp_path / "class")
    pupils.join("first")
    commits = [pupils.commit("first", "2026-11-10")]
    for exercise, stars, day in ((shop.double, 3, "2026-11-12"), (shop.row_sum, 2, "2026-11-20")):
        pupils.passed("first", exercise, stars)
        commits.append(pupils.commit("first", day))
    (pupils.folder / "first").rename(tmp_path / "first")
    rows = ["Name;E-mail;Login;Repository"]
    for number in range(30):
        folder = f"hw-1-s{number}" if number % 2 else f"s{number}@example.com"
        root = shutil.copytree(tmp_path / "first", pupils.folder / folder)
        (root / ".git/refs/heads/main").write_text(commits[number % 3])
        rows.append(f"Student {number};s{number}@example.com;s{number};org/hw-1-s{number}")
    (pupils.folder / "hw-1-s7/.git/HEAD").write_text("nonsense")
    shutil.rmtree(pupils.folder / "s10@example.com")
    Path("roster.csv").write_text("\n".join(rows), encoding="utf-8-sig")
    options = ("--roster=roster.csv", "--until=2026-11-15", "--weight=double=2")
    grades = ("--grades=grades.csv", "--format=canvas")
    said = told(shop.run("class", "report", str(pupils.folder), *options, *grades))
    assert said[0] == "30 students, 3 katas solved: median 1, 0 to 1"
    assert "Student 7: the git ref HEAD is broken, or has no commit" in said
    assert "Student 10: no repository (line 12 of the roster)" in said
    assert any(line.startswith("counted: the newest commit of each") for line in said)
    with open("grades.csv", encoding="utf-8", newline="") as lines:
        found = {row["SIS Login ID"]: row["Pallas Katas"] for row in csv.DictReader(lines)}
    assert found.pop("") == "12"
    expected = {f"s{number}@example.com": "6" if number % 3 else "0" for number in range(30)}
    assert found == expected | {"s7@example.com": "0", "s10@example.com": "0"}


def test_a_deadline_and_grading_again(pupils: ClassOf) -> None:
    """The file of the commit is graded, not that of the work tree."""
    pupils.commit("ada", "2026-11-10")
    pupils.write("ada", pupils.shop.double, "o_ref[...] = x_ref[...] * 3")
    Path("roster.csv").write_text("name,login\nAda,ada\n")
    options = ("--roster=roster.csv", "--until=2026-11-15", "--verify", "--isolation=auto")
    said = told(pupils.shop.run("class", "report", str(pupils.folder), *options))
    assert said[0].endswith("2 submissions to judge, 0 in the store")
    assert "No ledger claims more than its files earn." in said


def test_folders_that_init_has_written(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have katas/ without solutions/, and a first commit that has the stubs."""
    folder = tmp_path / "class"
    for student in ("ada", "bob"):
        shop.run("init", str(folder / student), "--only", "constant_add")
    assert not (folder / "ada" / "solutions").exists()
    monkeypatch.chdir(ROOT)
    (exercise,) = matching(ROOT, "constant_add")
    solved = exercise.solution.read_bytes()
    (folder / "ada" / KATAS / f"{exercise.id}.py").write_bytes(solved)
    append_passes(folder / "ada", [Pass(exercise.id, blob_id(solved), 3, DAY)])
    said = told(shop.run("class", "report", str(folder), "constant_add"))
    assert said[0] == "2 students, 1 katas solved: median 0.5, 0 to 1"
    said = told(shop.run("class", "report", str(folder), "constant_add", "--until=2100-01-01"))
    assert said[0] == "2 students, 1 katas solved: median 0, 0 to 0"
    assert not any(line.startswith(("ada:", "bob:")) for line in said)
