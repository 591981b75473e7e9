"""The files of the newest commit of a clone that isn't later than a deadline."""

from __future__ import annotations

import datetime
import os
import shutil
import subprocess
from pathlib import Path
from unittest import mock

import pytest

from grader.classroom.students import (
    MAX_BYTES,
    Clone,
    Course,
    StudentStanding,
    parse_deadline,
    require_git,
)
from grader.exercise.catalog import KATAS, katas
from grader.tools.git import Git, GitError
from tests.support.classrooms import ClassOf
from tests.support.repositories import Shop

DEADLINE = parse_deadline("2026-11-20T18:00+00:00")


@pytest.fixture
def pupils(shop: Shop, tmp_path: Path) -> ClassOf:
    """One has solved a first task before the deadline, and a second one after it."""
    found = ClassOf(shop, tmp_path / "class")
    found.join("ada")
    found.commit("ada", "2026-11-10")
    found.passed("ada", shop.double)
    found.commit("ada", "2026-11-20")
    found.passed("ada", shop.row_sum, stars=2)
    found.commit("ada", "2026-11-21")
    return found


def standing(pupils: ClassOf, until: datetime.datetime = DEADLINE) -> StudentStanding:
    course = Course(katas(pupils.shop.root))
    return course.standing(course.snapshot(Clone("ada", pupils.folder / "ada"), until))


def states(found: StudentStanding) -> list[str]:
    return [place.state.value for place in found.katas]


def git(pupils: ClassOf, *arguments: str) -> str:
    who = ("-c", "user.name=A", "-c", "user.email=a@example.com")
    return Git(pupils.folder / "ada")(*who, *arguments)


def test_the_newest_commit_that_is_not_later_counts(pupils: ClassOf) -> None:
    assert states(standing(pupils)) == ["solved", "todo", "todo"]
    at_noon = parse_deadline("2026-11-21T12:00:00+00:00")
    assert states(standing(pupils, at_noon)) == ["solved", "solved", "todo"]
    before = parse_deadline("2026-11-20T11:59:59+00:00")
    assert states(standing(pupils, before)) == ["todo", "todo", "todo"]


def test_the_work_tree_does_not_count(pupils: ClassOf) -> None:
    shutil.rmtree(pupils.folder / "ada" / KATAS)
    (pupils.folder / "ada" / KATAS).symlink_to(pupils.shop.root / KATAS)
    assert states(standing(pupils)) == ["solved", "todo", "todo"]


@pytest.mark.parametrize("how", ["packed", "detached", "other branch"])
def test_head_and_refs_are_plain_files(pupils: ClassOf, how: str) -> None:
    if how == "packed":
        git(pupils, "pack-refs", "--all")
        git(pupils, "gc", "-q")
        assert not (pupils.folder / "ada/.git/refs/heads/main").exists()
    elif how == "detached":
        git(pupils, "checkout", "-q", "--detach")
    else:
        git(pupils, "checkout", "-q", "-b", "work/ä")
    assert states(standing(pupils)) == ["solved", "todo", "todo"]


def test_a_merge_of_upstream_does_not_hide_a_students_commits(pupils: ClassOf) -> None:
    """Upstream's commit is the newest before the deadline, but the student merged it later."""
    root, noon = pupils.folder / "ada", "2026-11-20T13:00:00+00:00"
    first = git(pupils, "rev-list", "--max-parents=0", "HEAD").strip()
    with mock.patch.dict(os.environ, {"GIT_COMMITTER_DATE": noon}):
        git(pupils, "checkout", "-q", "-b", "upstream", first)
        git(pupils, "commit", "-q", "--allow-empty", "-m", "upstream's")
    git(pupils, "checkout", "-q", "main")
    with mock.patch.dict(os.environ, {"GIT_COMMITTER_DATE": "2026-11-22T12:00:00+00:00"}):
        git(pupils, "merge", "-q", "--no-ff", "-m", "merge", "upstream")
    assert (root / ".git/HEAD").read_text() == "ref: refs/heads/main\n"
    assert states(standing(pupils)) == ["solved", "todo", "todo"]


def test_no_setting_of_a_clone_or_of_the_teacher_is_used(
    pupils: ClassOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git ends with an error where it reads these."""
    (pupils.folder / "ada/.git/config").write_text("[broken\n")
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "no number")
    assert states(standing(pupils)) == ["solved", "todo", "todo"]


def test_a_commit_replaced_by_another_counts_itself(pupils: ClassOf) -> None:
    git(pupils, "replace", "HEAD~1", "HEAD")
    assert states(standing(pupils)) == ["solved", "todo", "todo"]


def test_a_shallow_clone(pupils: ClassOf) -> None:
    """Its last commit counts if it is early enough, and nothing is known of those before."""
    full = pupils.folder / "full"
    (pupils.folder / "ada").rename(full)
    subprocess.run(
        ["git", "clone", "-q", "--depth=1", f"file://{full}", pupils.folder / "ada"], check=True
    )
    late = parse_deadline("2026-11-30")
    assert states(standing(pupils, late)) == ["solved", "solved", "todo"]
    found = standing(pupils)
    assert found.solved == 0
    assert len(found.problems) == 1
    assert found.problems[0].endswith("in this shallow clone: clone without --depth")


def test_a_clone_of_later_commits_alone(pupils: ClassOf) -> None:
    found = standing(pupils, parse_deadline("2026-11-09"))
    assert (found.solved, states(found)) == (0, ["gone", "gone", "gone"])
    (problem,) = found.problems
    assert problem.startswith("no commit until 2026-11-09 23:59: the oldest is of 2026-11-10 ")


def broken_head(root: Path) -> None:
    (root / ".git/HEAD").write_text("ref: ../../bob/.git/refs/heads/main\n")


def circular_head(root: Path) -> None:
    (root / ".git/refs/heads/main").write_text("ref: refs/heads/main\n")


def empty_branch(root: Path) -> None:
    (root / ".git/refs/heads/main").unlink()


def unknown_commit(root: Path) -> None:
    (root / ".git/refs/heads/main").write_text("0123456789" * 4)


def git_file(root: Path) -> None:
    (root / ".git").rename(root / "elsewhere")
    (root / ".git").write_text("gitdir: elsewhere\n")


def git_link(root: Path) -> None:
    (root / ".git").rename(root / "elsewhere")
    (root / ".git").symlink_to("elsewhere")


def linked_objects(root: Path) -> None:
    (root / ".git/objects").rename(root / "elsewhere")
    (root / ".git/objects").symlink_to(root / "elsewhere")


def borrowed_objects(root: Path) -> None:
    (root / ".git/objects/info").mkdir(exist_ok=True)
    (root / ".git/objects/info/alternates").write_text("/elsewhere\n")


def no_git(root: Path) -> None:
    shutil.rmtree(root / ".git")


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (broken_head, "the git ref HEAD is broken"),
        (circular_head, "the git ref refs/heads/main doesn't lead to a commit"),
        (empty_branch, "the git ref refs/heads/main is broken, or has no commit"),
        (unknown_commit, "git rev-list: fatal: "),
        (git_file, ".git is a file"),
        (git_link, ".git is a symbolic link, not read"),
        (linked_objects, ".git/objects is a symbolic link, not read"),
        (borrowed_objects, "its objects are in another repository"),
        (no_git, "not a git repository"),
    ],
)
def test_a_broken_clone_is_a_problem_of_its_student(
    pupils: ClassOf, damage: object, problem: str
) -> None:
    assert callable(damage)
    damage(pupils.folder / "ada")
    found = standing(pupils)
    assert (found.solved, len(found.problems)) == (0, 1)
    assert found.problems[0].startswith(problem)


def test_what_is_not_read_of_a_commit(pupils: ClassOf) -> None:
    shop, folder = pupils.shop, pupils.folder / "ada" / KATAS
    (folder / f"{shop.double.id}.py").unlink()
    (folder / f"{shop.double.id}.py").symlink_to("/etc/passwd")
    shutil.rmtree(folder / shop.row_max.track)
    (folder / shop.row_max.track).symlink_to(shop.row_sum.track)
    with open(folder / f"{shop.row_sum.id}.py", "wb") as large:
        large.truncate(MAX_BYTES + 1)
    pupils.commit("ada", "2026-11-20")
    found = standing(pupils)
    assert found.solved == 0
    assert found.problems == (
        f"katas/{shop.double.id}.py is a symbolic link, not read",
        f"katas/{shop.row_sum.id}.py has 8,388,609 bytes: too many to read",
        f"katas/{shop.row_max.track} is a symbolic link, not read",
    )


def test_an_object_that_is_missing(pupils: ClassOf) -> None:
    """As in a clone made with --filter."""
    blob = git(pupils, "rev-parse", f"HEAD~1:katas/{pupils.shop.double.id}.py").strip()
    (pupils.folder / "ada/.git/objects" / blob[:2] / blob[2:]).unlink()
    found = standing(pupils)
    assert states(found) == ["gone", "todo", "todo"]
    assert found.problems == (f"katas/{pupils.shop.double.id}.py is not among the clone's objects",)


def test_a_repository_of_longer_ids(pupils: ClassOf) -> None:
    shutil.rmtree(pupils.folder / "ada/.git")
    git(pupils, "init", "-q", "-b", "main", "--object-format=sha256")
    pupils.commit("ada", "2026-11-19")
    assert states(standing(pupils)) == ["solved", "solved", "todo"]


def test_a_machine_without_git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GitError, match="git is not installed"):
        require_git()


def test_moments() -> None:
    day = parse_deadline("2026-11-20")
    assert day.tzinfo is not None
    assert day.replace(tzinfo=None) == datetime.datetime(2026, 11, 20, 23, 59, 59, 999999)
    local = parse_deadline("2026-11-20T18:00")
    assert local == datetime.datetime(2026, 11, 20, 18).astimezone()
    assert parse_deadline("2026-11-20T18:00Z").timestamp() == 1_795_197_600


@pytest.mark.parametrize("text", ["", "tomorrow", "2026-13-01", "20.11.2026", "2026-11-20T25:00"])
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(ValueError, match="is not an ISO date or date-time"):
        parse_deadline(text)
