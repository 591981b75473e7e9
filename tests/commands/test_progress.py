"""`kata progress`: the map without running anything, the history from git, the picture."""

from __future__ import annotations

import datetime
import io
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from grader.cli import main
from grader.record.history import (
    EventKind,
    History,
    KataEvent,
    history,
)
from grader.record.ledger import HEADER, LEDGER, read_ledger
from grader.report.progress_exports import history_text
from grader.tools.git import Git, git_in
from pallascope.tools.text import render_text
from tests.support.repositories import ROOT, Clone, Shop

TODAY = datetime.date(2026, 11, 20)
SVG = "{http://www.w3.org/2000/svg}"


def lines(said: str) -> list[str]:
    return [line.rstrip() for line in said.splitlines()]


# ---- the map ----


def test_the_map(clone: Clone) -> None:
    shop = clone.shop
    clone.passed(shop.double, stars=2)
    clone.passed(shop.row_sum)
    shop.repository.solve(shop.row_sum, "mine = 1")
    assert lines(shop.run("progress")) == [
        "1_first  ███████░░░░░░░  1/2 solved",
        "  ✔ 01 ★★☆ double   2026-11-18",
        "  ~ 02 ☆☆☆ row_sum  changed since ★★★ (2026-11-18)",
        "2_second  ░░░░░░░░░░░░░░  0/1 solved",
        "  · 01 ☆☆☆ row_max  todo",
        "1 of 3 solved, 1 changed, 1 todo   2 of 9 stars",
        "not committed  double   kata commit",
        "next  katas/1_first/kata_02_row_sum.py:14",
        "      pytest -k row_sum",
        "      stuck?  kata hint row_sum",
    ]


def test_every_way_not_to_be_solved(clone: Clone) -> None:
    shop = clone.shop
    clone.passed(shop.double)
    shop.double.path.write_text(shop.double.stub_text())
    shop.repository.solve(shop.row_sum)
    shop.row_max.path.unlink()
    said = shop.run("progress")
    assert "· 01 ☆☆☆ double   todo again, was ★★★ (2026-11-18)" in said
    assert "~ 02 ☆☆☆ row_sum  edited, not passed yet" in said
    assert "✘ 01 ☆☆☆ row_max  gone: kata reset row_max" in said
    assert "0 of 3 solved, 1 edited, 1 todo, 1 gone   0 of 9 stars" in said
    assert "not committed" not in said


def test_without_a_ledger_everything_is_as_the_files_say(shop: Shop, settled_git: None) -> None:
    shop.repository.solve(shop.double)
    said = shop.run("progress")
    assert "0 of 3 solved, 1 edited, 2 todo   0 of 9 stars" in said
    assert "no git here (not a git repository)" in said
    assert "next  katas/1_first/kata_02_row_sum.py" in said
    assert not (shop.root / LEDGER).exists()


def test_a_name_chooses(clone: Clone) -> None:
    said = clone.shop.run("progress", "row and not second")
    assert "row_sum" in said
    assert "row_max" not in said
    assert "0 of 1 solved" in said
    assert "no kata matches 'softmax'" in clone.shop.run("progress", "softmax", code=2)


def test_what_is_solved_and_committed_needs_nothing_more(clone: Clone) -> None:
    shop = clone.shop
    for kata in (shop.double, shop.row_sum, shop.row_max):
        clone.passed(kata)
    clone.git("add", ".")
    assert "not committed  double, row_sum, row_max" in shop.run("progress")
    clone.git("commit", "-q", "-m", "by hand")
    said = lines(shop.run("progress"))
    assert said[-1] == "3 of 3 solved   9 of 9 stars"
    assert shop.run("next") == "Every kata is solved, with every star.\n"
    clone.passed(shop.double, stars=3, body="o_ref[...] = 2 * x_ref[...]")
    assert "not committed  double " in shop.run("progress")


def test_a_pass_whose_line_alone_is_not_committed(clone: Clone) -> None:
    clone.passed(clone.shop.double)
    clone.git("commit", "-q", "-m", "without the ledger", "--", "katas/1_first")
    assert "not committed  double " in clone.shop.run("progress")


def test_a_damaged_ledger_is_told_of(clone: Clone) -> None:
    clone.passed(clone.shop.double)
    with (clone.root / LEDGER).open("a") as file:
        file.write("<<<<<<< HEAD\n" * 7)
    said = clone.shop.run("progress")
    assert "1 of 3 solved" in said
    assert f"{LEDGER}:4: a git conflict marker" in said
    assert "and 3 more lines like that" in said


def test_no_git_command(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    clone.passed(clone.shop.double)
    monkeypatch.setenv("PATH", str(clone.root))
    assert "no git here (git is not installed)" in clone.shop.run("progress")
    assert "nothing to commit to: git is not installed" in clone.shop.run("commit", code=2)


def test_before_the_first_commit(shop: Shop, settled_git: None) -> None:
    Git(shop.root)("init", "-q")
    assert "next  katas/1_first" in shop.run("progress")
    assert "No kata has been passed yet" in shop.run("progress", "--log")


def test_line_ends_of_a_clone_do_not_count(clone: Clone) -> None:
    clone.passed(clone.shop.double)
    clone.git("config", "core.autocrlf", "true")
    clone.git("add", ".")
    clone.git("commit", "-q", "-m", "solved")
    for file in ("katas/1_first/kata_01_double.py", LEDGER):
        (clone.root / file).unlink()
    clone.git("checkout", "-q", ".")
    assert b"\r\n" in clone.shop.double.path.read_bytes()
    assert b"\r\n" not in (clone.root / LEDGER).read_bytes()
    said = clone.shop.run("progress")
    assert "1 of 3 solved" in said
    assert "not committed" not in said


def test_progress_and_the_like_import_no_jax() -> None:
    code = (
        "import sys\nfrom grader.cli import main\n"
        "assert main(['progress', 'basics']) == 0\n"
        "print(sorted({'jax', 'jaxlib', 'jaxtyping'} & set(sys.modules)))"
    )
    environ = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environ, capture_output=True, check=True
    )
    assert ran.stdout.decode().endswith("[]\n")


@pytest.mark.parametrize("command", ["progress", "list", "next", "commit", "log"])
def test_terminals_without_unicode(
    clone: Clone, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = clone.shop
    clone.passed(shop.double)
    clone.passed(shop.row_sum)
    shop.repository.solve(shop.row_sum, "mine = 1")
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", out)
    arguments = ["progress", "--log"] if command == "log" else [command]
    assert main(arguments) == 0
    out.flush()
    assert b"***" in out.buffer.getvalue()  # type: ignore[attr-defined]


# ---- list and next ----


def test_list_tells_what_is_known(clone: Clone) -> None:
    clone.passed(clone.shop.double, stars=2)
    clone.passed(clone.shop.row_sum)
    clone.shop.repository.solve(clone.shop.row_sum, "mine = 1")
    assert lines(clone.shop.run("list"))[:5] == [
        "1_first",
        "  01  double   solved ★★☆  doubling",
        "  02  row_sum  changed     doubling",
        "2_second",
        "  01  row_max  todo        doubling",
    ]


def test_next_says_why_one_has_to_be_graded_again(clone: Clone) -> None:
    clone.passed(clone.shop.double)
    assert "kata_02_row_sum.py:" in clone.shop.run("next")
    clone.shop.repository.solve(clone.shop.double, "mine = 1")
    said = clone.shop.run("next")
    assert "kata_01_double.py:" in said
    assert "changed since ★★★ (2026-11-18)" in said


# ---- the history ----


def commit(clone: Clone, day: str, message: str = "x") -> str:
    clone.on(day)
    clone.git("add", ".")
    clone.git("commit", "-q", "-m", message)
    return clone.git("rev-parse", "HEAD").strip()


def events(
    clone: Clone, root: Path | None = None
) -> list[tuple[EventKind, str, str, str | None, int]]:
    root = root or clone.root
    found = history(read_ledger(root), git_in(root))
    return [(e.kind, e.kata.split("_", 3)[3], str(e.day), e.commit, e.gained) for e in found.events]


@pytest.fixture
def lived(clone: Clone) -> tuple[Clone, list[str]]:
    """Four commits: double solved, improved, broken, back; a fifth pass is not committed."""
    double, row_sum = clone.shop.double, clone.shop.row_sum
    clone.passed(double, "slow = 1", stars=2, day="2026-11-10")
    ids = [commit(clone, "2026-11-17")]
    clone.passed(double, "fast = 1", day="2026-11-10")
    ids.append(commit(clone, "2026-11-18"))
    fast = double.path.read_text()
    clone.shop.repository.solve(double, "broken = 1")
    ids.append(commit(clone, "2026-11-19"))
    double.path.write_text(fast)
    ids.append(commit(clone, "2026-11-19"))
    clone.passed(row_sum, day="2026-11-20")
    return clone, ids


def test_commits_tell_what_happened_when(lived: tuple[Clone, list[str]]) -> None:
    clone, ids = lived
    assert events(clone) == [
        (EventKind.SOLVED, "double", "2026-11-17", ids[0], 2),
        (EventKind.SOLVED, "double", "2026-11-18", ids[1], 1),
        (EventKind.CHANGED, "double", "2026-11-19", ids[2], 0),
        (EventKind.AGAIN, "double", "2026-11-19", ids[3], 0),
        (EventKind.SOLVED, "row_sum", "2026-11-20", None, 3),
    ]


def test_the_log(lived: tuple[Clone, list[str]]) -> None:
    clone, ids = lived
    found = history(read_ledger(clone.root), clone.git)
    first, second, third, fourth = (commit[:8] for commit in ids)
    assert lines(render_text(history_text(found, TODAY), 80, False)) == [
        "2026-11-17",
        f"  ✔ ★★☆ double   {first}",
        "2026-11-18",
        f"  ✔ ★★★ double   {second}  one more star",
        "2026-11-19",
        f"  ~ ☆☆☆ double   {third}  changed since ★★★",
        f"  ✔ ★★★ double   {fourth}  changed back",
        "2026-11-20",
        "  ✔ ★★★ row_sum  not committed",
        "streak  1 day (longest: 2 days)",
        "stars by day",
        "  2026-11-17  ████████ 2",
        "  2026-11-18  ████████████ 3",
        "  2026-11-20  ████████████████████████ 6",
    ]
    plain = render_text(history_text(found, TODAY), 40, False, "ascii")
    assert "  + **. double   " in plain
    assert max(map(len, plain.splitlines())) <= 40


def test_the_command_tells_of_what_was_asked_for(lived: tuple[Clone, list[str]]) -> None:
    said = lived[0].shop.run("progress", "row_sum", "--log")
    assert "row_sum  not committed" in said
    assert "double" not in said


def test_a_merge_that_changes_a_solution_is_told_of(clone: Clone) -> None:
    """As when upstream's edit arrives in a solved file: the result is a new content."""
    double = clone.shop.double
    clone.git("switch", "-q", "-c", "upstream")
    double.path.write_text(double.path.read_text().replace("Double every", "Multiply every"))
    commit(clone, "2026-11-17")
    clone.git("switch", "-q", "main")
    clone.passed(double)
    solved = commit(clone, "2026-11-18")
    clone.on("2026-11-19")
    clone.git("merge", "-q", "--no-edit", "upstream")
    merged = clone.git("rev-parse", "HEAD").strip()
    assert events(clone) == [
        (EventKind.SOLVED, "double", "2026-11-18", solved, 3),
        (EventKind.CHANGED, "double", "2026-11-19", merged, 0),
    ]


def test_the_commit_that_first_brought_a_line_counts(clone: Clone) -> None:
    clone.passed(clone.shop.double)
    text = (clone.root / LEDGER).read_text()
    first = commit(clone, "2026-11-17")
    for day, content in (("2026-11-18", HEADER), ("2026-11-19", text)):
        (clone.root / LEDGER).write_text(content)
        commit(clone, day)
    assert events(clone) == [(EventKind.SOLVED, "double", "2026-11-17", first, 3)]


def test_one_that_is_no_more_stays_in_the_history(clone: Clone) -> None:
    double = clone.shop.double
    clone.passed(double)
    for file in (double.path, double.solution, double.key_path):
        file.unlink()
    assert "double" not in clone.shop.run("progress")
    assert "★★★ double" in clone.shop.run("progress", "--log")


def test_a_broken_key_hides_no_progress(clone: Clone) -> None:
    clone.passed(clone.shop.double)
    clone.shop.edit_key(clone.shop.double, 'concept = "doubling"', "")
    assert "1 of 3 solved" in clone.shop.run("progress")
    clone.shop.run("commit")
    assert clone.subjects()[0] == "Solve double: double (★★★)"


def test_a_shallow_clone_has_the_ledgers_days(
    lived: tuple[Clone, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    clone, _ = lived
    shallow = clone.root / "shallow"
    Git(clone.root)("clone", "-q", "--depth", "2", clone.root.as_uri(), str(shallow))
    assert events(clone, shallow) == [
        (EventKind.SOLVED, "double", "2026-11-10", "", 2),
        (EventKind.SOLVED, "double", "2026-11-10", "", 1),
    ]
    assert history(read_ledger(shallow), git_in(shallow)).shallow == datetime.date(2026, 11, 19)
    monkeypatch.chdir(shallow)
    said = clone.shop.run("progress", "--log")
    assert "a shallow clone has no commits before 2026-11-19" in said
    assert "git fetch --unshallow" in " ".join(said.split())
    assert "not committed" not in said


def test_without_git_the_ledgers_own_days_are_told(clone: Clone) -> None:
    clone.passed(clone.shop.double)
    shutil.rmtree(clone.root / ".git")
    said = clone.shop.run("progress", "--log")
    assert lines(said)[:2] == ["2026-11-18", "  ✔ ★★★ double"]
    assert "no git here (not a git repository): the dates are the ledger's" in said


def solved(*days: str) -> History:
    return History(
        tuple(
            KataEvent(
                EventKind.SOLVED, "1_a/kata_01_x", datetime.date.fromisoformat(day), 3, gained=1
            )
            for day in days
        )
    )


@pytest.mark.parametrize(
    ("days", "current", "longest"),
    [
        ((), 0, 0),
        (("2026-11-20",), 1, 1),
        (("2026-11-18", "2026-11-19"), 2, 2),
        (("2026-11-17", "2026-11-18"), 0, 2),
        (("2026-10-30", "2026-10-31", "2026-11-01", "2026-11-20", "2026-11-20"), 1, 3),
    ],
)
def test_streaks(days: tuple[str, ...], current: int, longest: int) -> None:
    assert solved(*days).streaks(TODAY) == (current, longest)


@pytest.mark.parametrize(
    ("count", "step", "name", "last"),
    [(14, 1, "day", "2026-01-14"), (15, 1, "week", "2026-W03"), (30, 7, "month", "2026-07")],
)
def test_stars_over_time_are_few_bars(count: int, step: int, name: str, last: str) -> None:
    start = datetime.date(2026, 1, 1)
    found = solved(*(str(start + datetime.timedelta(n * step)) for n in range(count)))
    said = lines(render_text(history_text(found, TODAY), 80, False))
    bars = said[said.index(f"stars by {name}") + 1 :]
    assert len(bars) <= 14
    assert re.fullmatch(rf"  {last}  █{{24}} {count}", bars[-1])


# ---- the picture ----


def test_the_picture(clone: Clone) -> None:
    shop = clone.shop
    clone.passed(shop.double, stars=2)
    clone.passed(shop.row_sum)
    shop.repository.solve(shop.row_sum, "mine = 1")
    assert shop.run("progress", "--svg", "p.svg") == "wrote p.svg\n"
    text = (clone.root / "p.svg").read_text(encoding="utf-8")
    svg = ET.fromstring(text)
    assert svg.get("role") == "img"
    assert svg.findtext(f"{SVG}title") == "1 of 3 katas solved, 2 of 9 stars"
    assert svg.findtext(f"{SVG}desc") == "1_first: 1 of 2 solved; 2_second: 0 of 1 solved"
    tips = {rect.findtext(f"{SVG}title"): rect.get("class") for rect in svg.iter(f"{SVG}rect")}
    assert tips["01 double: ★★, 2026-11-18"] == "stars2"
    assert tips["02 row_sum: changed since ★★★ (2026-11-18)"] == "none changed"
    assert tips["01 row_max: todo"] == "none"
    assert "@media (prefers-color-scheme: dark)" in text
    assert not re.search(r"(href|src|@import|url)", text)
    shop.run("progress", "--svg", "p.svg")
    assert (clone.root / "p.svg").read_text(encoding="utf-8") == text


def test_only_its_own_picture_is_replaced(shop: Shop) -> None:
    other = shop.root / "other.svg"
    other.write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    said = shop.run("progress", "--svg", "other.svg", code=2)
    assert "other.svg exists, and kata progress did not draw it" in said
    assert other.read_text().startswith("<svg xmlns='")
