"""Git through its own command, in real repositories."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.tools.git import (
    Git,
    GitError,
    NoGit,
    NoRepository,
    blob_id,
    git_in,
)


@pytest.fixture
def git(tmp_path: Path) -> Git:
    Git(tmp_path)("init", "-q")
    return git_in(tmp_path)


@pytest.mark.parametrize("content", [b"", b"x\n", b"\xff\0", "★\n".encode()])
def test_a_contents_id_is_gits(git: Git, content: bytes) -> None:
    assert git("hash-object", "--stdin", stdin=content).strip() == blob_id(content)


def test_a_contents_id_is_the_same_with_other_line_ends() -> None:
    assert blob_id(b"a\r\nb\r\n") == blob_id(b"a\nb\n") != blob_id(b"a\nb")


def test_a_failure_says_what_git_says(git: Git) -> None:
    with pytest.raises(GitError, match=r"git merge: merge: nowhere"):
        git("merge", "nowhere")


def test_a_failure_after_settings_names_the_command(git: Git) -> None:
    with pytest.raises(GitError, match=r"git merge: merge: nowhere"):
        git("-c", "merge.ff=only", "-c", "core.hooksPath=/dev/null", "merge", "nowhere")


def test_contents_come_as_bytes(git: Git) -> None:
    (git.folder / "x").write_bytes(b"\xff\r\n\0")
    git("add", "x")
    assert git.content(":x") == b"\xff\r\n\0"
    assert git.content(":y") is None
    assert git.run_bytes("show", ":x").stdout == b"\xff\r\n\0"


def test_paths_are_told_apart(git: Git) -> None:
    for name in ("a b", "c\nd", "größe"):
        (git.folder / name).touch()
    assert set(git.paths("ls-files", "--others", "-z")) == {"a b", "c\nd", "größe"}
    assert git.paths("ls-files", "-z") == ()


def test_a_folder_below_the_top_is_not_a_repository(git: Git) -> None:
    below = git.folder / "below"
    below.mkdir()
    with pytest.raises(NoRepository, match=f"inside of another git repository, {git.folder}"):
        git_in(below)
    Git(below)("init", "-q")
    assert git_in(below).folder == below


def test_where_git_refuses_a_folder_its_own_remedy_is_passed_on(
    git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(NoGit) as raised:
        git_in(git.folder)
    assert not isinstance(raised.value, NoRepository)
    said = str(raised.value)
    assert "detected dubious ownership" in said
    assert f"git config --global --add safe.directory {git.folder}" in said


def test_where_git_can_not_read_its_settings_it_says_so(git: Git) -> None:
    (git.folder / ".git" / "config").write_text("[core\n")
    with pytest.raises(NoGit, match="bad config line 1"):
        git_in(git.folder)


def test_paths_are_not_quoted(git: Git) -> None:
    (git.folder / "größe.py").touch()
    assert git("ls-files", "--others") == "größe.py\n"


def test_what_is_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(NoGit, match="not a git repository"):
        git_in(tmp_path)
    bare = tmp_path / "bare"
    bare.mkdir()
    Git(bare)("init", "-q", "--bare")
    with pytest.raises(NoGit, match="without a work tree"):
        git_in(bare)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoGit, match="git is not installed"):
        git_in(tmp_path)
