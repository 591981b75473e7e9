"""`kata commit`: one commit a kata, and nothing else that is staged or dirty."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from grader.record.commits import with_passes
from grader.record.ledger import (
    HEADER,
    LEDGER,
    Pass,
    parse_ledger,
    read_ledger,
)
from grader.tools.git import Git
from tests.support.repositories import Clone, Shop

DOUBLE = "katas/1_first/kata_01_double.py"
ROW_SUM = "katas/1_first/kata_02_row_sum.py"


def committed(clone: Clone, commit: str = "HEAD") -> tuple[Pass, ...]:
    return parse_ledger(clone.git("show", f"{commit}:./{LEDGER}")).passes


def nothing_left(clone: Clone) -> bool:
    return "Nothing to commit: the last commit has every solved kata" in clone.shop.run("commit")


def test_each_solved_exercise_is_one_commit(clone: Clone) -> None:
    shop = clone.shop
    last = clone.passed(shop.row_max, stars=2)
    first = clone.passed(shop.double)
    shop.repository.solve(shop.row_sum)
    said = shop.run("commit").splitlines()
    assert clone.subjects() == [
        "Solve row_max: row_max (★★☆)",
        "Solve double: double (★★★)",
        "As shipped",
    ]
    assert [line.partition("  ")[2] for line in said] == clone.subjects()[1::-1]
    assert clone.changed("HEAD~1") == [DOUBLE, LEDGER]
    assert clone.changed() == ["katas/2_second/kata_01_row_max.py", LEDGER]
    assert committed(clone, "HEAD~1") == (first,)
    assert committed(clone) == (last, first)
    assert clone.status() == [f" M {ROW_SUM}"]
    assert nothing_left(clone)


def test_the_message_says_what_judged(clone: Clone) -> None:
    clone.passed(clone.shop.double)
    clone.shop.run("commit")
    body = clone.git("log", "-1", "--format=%b").strip()
    assert body == "Track 1_first, kata 01. Passed on 2026-11-18.\njax 0.10.2"


def test_nothing_else_that_is_staged_or_dirty_is_touched(clone: Clone) -> None:
    shop = clone.shop
    (clone.root / "staged.txt").write_text("staged\n")
    shop.repository.solve(shop.row_sum, "staged = 1")
    clone.git("add", "staged.txt", ROW_SUM)
    shop.repository.solve(shop.row_sum, "dirty = 1")
    shop.row_max.path.unlink()
    (clone.root / "new.txt").write_text("untracked\n")
    # Of the kata itself something else is staged than what passed.
    shop.repository.solve(shop.double, "older = 1")
    clone.git("add", DOUBLE)
    clone.passed(shop.double)
    before = clone.status()
    shop.run("commit")
    assert clone.changed() == [DOUBLE, LEDGER]
    assert clone.status() == [line for line in before if DOUBLE not in line and LEDGER not in line]
    assert "staged = 1" in clone.git("show", f":{ROW_SUM}")
    assert "dirty = 1" in shop.row_sum.path.read_text()


def test_other_lines_of_the_ledger_stay_as_they_were(clone: Clone) -> None:
    shop = clone.shop
    clone.passed(shop.row_sum)
    shop.repository.solve(shop.row_sum, "changed = 1")
    clone.git("add", LEDGER)
    one = clone.passed(shop.double)
    with (clone.root / LEDGER).open("a") as file:
        file.write("no pass\n")
    work = (clone.root / LEDGER).read_bytes()
    shop.run("commit")
    assert committed(clone) == (one,)
    assert (clone.root / LEDGER).read_bytes() == work
    # The line that was staged still is; the corrupt one is still only in the file.
    assert f"MM {LEDGER}" in clone.status()
    assert len(parse_ledger(clone.git("show", f":{LEDGER}")).passes) == 2
    assert "no pass" not in clone.git("show", f":{LEDGER}")
    assert nothing_left(clone)


def test_more_stars_improve_and_another_way_reworks(clone: Clone) -> None:
    double = clone.shop.double
    for body, stars in (("first = 1", 2), ("second = 1", 3), ("third = 1", 3)):
        clone.passed(double, body, stars=stars)
        clone.shop.run("commit")
    assert clone.subjects()[:3] == [
        "Rework double: double (★★★)",
        "Improve double: double (★★★)",
        "Solve double: double (★★☆)",
    ]
    assert len(committed(clone)) == 3


def test_the_ledger_alone_may_be_what_is_missing(clone: Clone) -> None:
    clone.passed(clone.shop.double)
    clone.git("commit", "-q", "-m", "by hand", "--", DOUBLE)
    clone.shop.run("commit")
    assert clone.changed() == [LEDGER]
    assert nothing_left(clone)


def test_names_choose(clone: Clone) -> None:
    shop = clone.shop
    for kata in (shop.double, shop.row_sum, shop.row_max):
        clone.passed(kata)
    shop.run("commit", "row_sum", "double")
    assert clone.subjects()[:2] == ["Solve row_sum: row_sum (★★★)", "Solve double: double (★★★)"]
    assert " M katas/2_second/kata_01_row_max.py" in clone.status()
    assert "no kata matches 'softmax'" in shop.run("commit", "softmax", code=2)
    shop.run("commit")
    assert clone.status() == []


def test_a_name_that_is_not_solved_is_told_why(clone: Clone) -> None:
    shop = clone.shop
    clone.passed(shop.double)
    clone.passed(shop.row_sum)
    shop.repository.solve(shop.row_sum, "changed = 1")
    said = shop.run("commit", "row_sum", "row_max", "double", code=1)
    assert "row_sum isn't solved now: changed since ★★★ (2026-11-18)" in said
    assert "row_max isn't solved now: todo" in said
    assert clone.subjects()[0] == "Solve double: double (★★★)"
    # Of a name that matches more than one kata, those that are solved are meant.
    assert nothing_left(clone)
    assert "Nothing to commit" in shop.run("commit", "first")


def test_nothing_is_solved(clone: Clone) -> None:
    assert "no kata is solved now; pytest -k NAME" in clone.shop.run("commit")
    assert clone.subjects() == ["As shipped"]


def test_the_first_commit_of_a_repository(shop: Shop, clone: Clone) -> None:
    shutil.rmtree(clone.root / ".git")
    clone.git("init", "-q", "-b", "main")
    one = clone.passed(shop.double)
    shop.run("commit")
    assert clone.subjects() == ["Solve double: double (★★★)"]
    assert clone.changed() == [DOUBLE, LEDGER]
    assert committed(clone) == (one,)
    assert clone.git("show", f"HEAD:{LEDGER}").startswith(HEADER)


def test_a_worktree_with_a_detached_head(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = clone.shop
    tree = clone.root / "tree"
    clone.git("worktree", "add", "-q", "--detach", str(tree))
    clone.passed(shop.double)
    for file in (DOUBLE, LEDGER):
        shutil.copy(clone.root / file, tree / file)
    monkeypatch.chdir(tree)
    assert "The commits are on no branch (detached HEAD)" in shop.run("commit")
    said = Git(tree)("log", "--format=%s", "-1")
    assert said == "Solve double: double (★★★)\n"
    assert Git(tree)("status", "--porcelain") == ""
    assert clone.subjects() == ["As shipped"]


def test_nothing_is_written_into_a_repository_around_the_course(
    clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where an archive is unpacked inside of somebody's repository."""
    clone.passed(clone.shop.double)
    inside = clone.root / "inside"
    inside.mkdir()
    for name in ("katas", "solutions"):
        shutil.move(clone.root / name, inside / name)
    monkeypatch.chdir(inside)
    before = clone.status(), clone.subjects()
    said = clone.shop.run("commit", code=2)
    assert f"inside of another git repository, {clone.root}. git init {inside}" in said
    for command in (["update"], ["update", "--abort"]):
        assert "inside of another git repository" in clone.shop.run(*command, code=2)
    for command in (["progress"], ["progress", "--log"]):
        assert "no git here (this folder is inside of" in " ".join(clone.shop.run(*command).split())
    assert (clone.status(), clone.subjects()) == before
    Git(inside)("init", "-q")
    assert "Solve double" in clone.shop.run("commit")
    assert clone.subjects() == before[1]


def test_line_ends_are_stored_as_gits_settings_say(clone: Clone) -> None:
    clone.git("config", "core.autocrlf", "true")
    clone.passed(clone.shop.double)
    for file in (DOUBLE, LEDGER):
        content = (clone.root / file).read_bytes()
        (clone.root / file).write_bytes(content.replace(b"\n", b"\r\n"))
    clone.shop.run("commit")
    assert "\r" not in clone.git("show", f"HEAD:{DOUBLE}") + clone.git("show", f"HEAD:{LEDGER}")
    assert clone.status() == []
    assert nothing_left(clone)


def conflict(clone: Clone, how: Callable[[], object]) -> None:
    """Leave git in the middle of something: two commits write the same line of a file."""
    file = clone.root / "file.txt"
    for branch in ("other", "main"):
        if branch == "other":
            clone.git("switch", "-q", "-c", "other")
        else:
            clone.git("switch", "-q", "main")
        file.write_text(branch)
        clone.git("add", "file.txt")
        clone.git("commit", "-q", "-m", branch)
    how()


@pytest.mark.parametrize("what", ["merge", "rebase", "cherry-pick"])
def test_in_the_middle_of_something_it_is_refused(clone: Clone, what: str) -> None:
    conflict(clone, lambda: clone.git.run(what, "other"))
    clone.passed(clone.shop.double)
    before = clone.git("rev-parse", "HEAD")
    said = clone.shop.run("commit", code=2)
    assert (
        f"a {what} is not finished: first run git {what} --continue or git {what} --abort" in said
    )
    assert clone.git("rev-parse", "HEAD") == before


def test_while_another_command_is_at_work_it_is_refused(clone: Clone) -> None:
    clone.passed(clone.shop.double)
    (clone.root / ".git" / "index.lock").touch()
    assert "another git command is running" in clone.shop.run("commit", code=2)
    assert clone.subjects() == ["As shipped"]


def hook(clone: Clone, name: str, text: str) -> None:
    file = clone.root / ".git" / "hooks" / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


def test_hooks_have_their_say(clone: Clone) -> None:
    clone.passed(clone.shop.double)
    before = clone.status()
    hook(clone, "pre-commit", "git diff --cached --name-only >&2; exit 1")
    said = clone.shop.run("commit", code=2)
    assert said == f"kata: git commit: {DOUBLE}\n{LEDGER}\n"
    assert (clone.status(), clone.subjects()) == (before, ["As shipped"])
    hook(clone, "pre-commit", "exit 0")
    hook(clone, "commit-msg", 'echo "Reviewed: yes" >> "$1"')
    clone.shop.run("commit")
    assert clone.git("log", "-1", "--format=%b").endswith("Reviewed: yes\n\n")


def test_without_an_author_git_says_what_to_do(
    clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone.passed(clone.shop.double)
    for who in ("AUTHOR", "COMMITTER"):
        for what in ("NAME", "EMAIL"):
            monkeypatch.delenv(f"GIT_{who}_{what}")
    clone.git("config", "user.useConfigOnly", "true")
    before = clone.status()
    assert "git config --global user.email" in clone.shop.run("commit", code=2)
    assert clone.status() == before


def test_commits_are_signed_where_that_is_asked_for(clone: Clone, tmp_path: Path) -> None:
    """By a program that refuses: only what git asks of it counts."""
    clone.passed(clone.shop.double)
    clone.git("config", "commit.gpgsign", "true")
    clone.git("config", "gpg.program", "/bin/false")
    assert "gpg failed to sign the data" in clone.shop.run("commit", code=2)
    assert clone.subjects() == ["As shipped"]


def test_without_git_there_is_nothing_to_commit_to(shop: Shop, settled_git: None) -> None:
    said = shop.run("commit", code=2)
    assert said.startswith("kata: nothing to commit to: not a git repository. git init /")


# ---- which lines a commit takes ----

A, B, C = (
    f"1_a/kata_0{n}_x{n}  {str(n) * 40}  3  2026-11-18\n" for n in (1, 2, 3)
)  # of three katas


@pytest.mark.parametrize(
    ("held", "work", "expected"),
    [
        ("", HEADER + A + B + C, HEADER + B),
        (HEADER + C, HEADER + A + B + C, HEADER + B + C),
        (HEADER + A + C, HEADER + A + B + C, HEADER + A + B + C),
        (A + C, HEADER + A + B + C, A + B + C),
        (C + A, HEADER + A + B + C, C + A + B),
        (A.strip(), A + B, A + B),
        (A + B, HEADER + A + B + C, A + B),
        (A, A + B + B, A + B),
        (f"{A}\r\n", f"{A}\r\n{B}", f"{A}\r\n{B}"),
        ("# another\n\n" + A, "# another\n\n" + A + "no pass\n" + B, "# another\n\n" + A + B),
    ],
    ids=range(10),
)
def test_lines_stand_where_they_stand_in_the_file(held: str, work: str, expected: str) -> None:
    assert with_passes(held, work, parse_ledger(B).passes) == expected


def test_the_ledger_is_what_it_was(clone: Clone) -> None:
    """The file in the work tree is never written to."""
    clone.passed(clone.shop.double)
    before = (clone.root / LEDGER).read_bytes()
    clone.shop.run("commit")
    assert (clone.root / LEDGER).read_bytes() == before
    assert read_ledger(clone.root).warnings == ()
