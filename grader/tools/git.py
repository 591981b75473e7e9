"""Runs git commands in a clone.

Nothing here knows about katas. Paths are relative to the folder of `Git`, with forward slashes.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

#: A setting before the command: git -c name=value.
_SETTING = re.compile(r"-c|[\w.]+=.*")


class GitError(ValueError):
    """A git command failed. The text is git's message."""


class NoGit(GitError):
    """Git can't be used here: it isn't installed, or it refuses the folder. The text says why."""


class NoRepository(NoGit):
    """The folder is not the top of a repository: it is in none, or inside `outer`."""

    def __init__(self, reason: str, outer: str = "") -> None:
        super().__init__(reason)
        self.outer = outer


@dataclass(frozen=True, slots=True)
class Git:
    """Git in one folder of a work tree. Make one with `git_in`.

    `index` is a file to use instead of the repository's index.
    """

    folder: Path
    index: Path | None = None

    def __call__(self, *arguments: str, stdin: bytes | None = None) -> str:
        """The output of a git command. Raises GitError with git's message if it fails."""
        result = self.run(*arguments, stdin=stdin)
        if result.returncode:
            reason = (
                result.stderr.strip() or result.stdout.strip() or f"exit code {result.returncode}"
            )
            command = next(word for word in arguments if not _SETTING.fullmatch(word))
            raise GitError(f"git {command}: {reason}")
        return result.stdout

    def run(self, *arguments: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[str]:
        """Run a git command that may fail; its messages are in English, its paths unquoted."""
        result = self.run_bytes(*arguments, stdin=stdin)
        out, err = (end.decode("utf-8", "replace") for end in (result.stdout, result.stderr))
        return subprocess.CompletedProcess(result.args, result.returncode, out, err)

    def run_bytes(
        self, *arguments: str, stdin: bytes | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Like `run`, for output that may not be text."""
        environment = {**os.environ, "LC_ALL": "C.UTF-8", "GIT_OPTIONAL_LOCKS": "0"}
        if self.index:
            environment["GIT_INDEX_FILE"] = str(self.index)
        return subprocess.run(
            ["git", "-c", "core.quotePath=false", *arguments],
            cwd=self.folder,
            env=environment,
            input=stdin,
            stdin=None if stdin is not None else subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )

    def content(self, name: str) -> bytes | None:
        """A blob's content by git's name for it ("HEAD:README.md"); None if there is none."""
        result = self.run_bytes("cat-file", "blob", name)
        return None if result.returncode else result.stdout

    def paths(self, *arguments: str) -> tuple[str, ...]:
        """The paths that a command prints when it is given -z."""
        return tuple(path for path in self(*arguments).split("\0") if path)


def git_in(folder: Path) -> Git:
    """Git for a folder that is the top of a work tree. Raises NoGit with the reason.

    A folder inside another repository, such as an unpacked archive, is refused, because commits
    would go into that repository.
    """
    if shutil.which("git") is None:
        raise NoGit("git is not installed")
    git = Git(folder)
    inside = git.run("rev-parse", "--is-inside-work-tree", "--show-prefix")
    if inside.returncode:
        error = inside.stderr.strip().removeprefix("fatal: ")
        if error.startswith("not a git repository"):
            raise NoRepository("not a git repository")
        # For example, another user owns the folder: the last line of git's message has the remedy.
        first, *rest = (line.strip() for line in error.splitlines() if line.strip())
        raise NoGit(f"{first}; {' '.join(rest)}" if rest else first)
    is_inside, _, prefix = inside.stdout.partition("\n")
    if is_inside != "true":
        raise NoGit("a git repository without a work tree")
    if prefix.strip():
        top = git("rev-parse", "--show-toplevel").strip()
        raise NoRepository(f"this folder is inside of another git repository, {top}", top)
    return git


def require_writable(git: Git) -> None:
    """Raise GitError if git can't write to its repository, as in a read-only clone."""
    git_folder = Path(git("rev-parse", "--absolute-git-dir").strip())
    if not os.access(git_folder, os.W_OK):
        raise GitError(f"{git_folder} can't be written to: this needs a clone that you may change")


def blob_id(content: bytes) -> str:
    """The id that git gives a file's content (SHA-1, 40 hex digits).

    Line ends count as git stores them, so a clone that checks out CRLF (core.autocrlf) has the same
    ids.
    """
    stored = content.replace(b"\r\n", b"\n")
    return hashlib.sha1(b"blob %d\0" % len(stored) + stored, usedforsecurity=False).hexdigest()


#: Files that git keeps while a command is not finished, and the command.
_UNFINISHED = {
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
}


def require_finished(git: Git) -> None:
    """Raise GitError, with the commands that end it, while a merge or rebase is not finished."""
    for name, command in _UNFINISHED.items():
        if (git.folder / git("rev-parse", "--git-path", name).strip()).exists():
            commands = f"git {command} --continue or git {command} --abort"
            raise GitError(f"a {command} is not finished: first run {commands}")
