"""Runs git: what a clone knows of its files and their history.

Nothing here knows about katas. Every path is relative to the folder that `Git` was made for, with
forward slashes.
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
    """A git command failed; the text is what git said."""


class NoGit(GitError):
    """Git can't be used here: it is not installed, or it refuses the folder; the text says why."""


class NoRepository(NoGit):
    """The folder is not a repository itself: it is in none, or only inside somebody else's."""


@dataclass(frozen=True, slots=True)
class Git:
    """Git in one folder of a work tree. Make one with `git_in`.

    With an `index`, that file stands for the one in which the next commit is prepared.
    """

    folder: Path
    index: Path | None = None

    def __call__(self, *arguments: str, given: bytes | None = None) -> str:
        """What a git command prints. Raises GitError with what it says where it fails."""
        ran = self.try_(*arguments, given=given)
        if ran.returncode:
            reason = ran.stderr.strip() or ran.stdout.strip() or f"exit code {ran.returncode}"
            command = next(word for word in arguments if not _SETTING.fullmatch(word))
            raise GitError(f"git {command}: {reason}")
        return ran.stdout

    def try_(self, *arguments: str, given: bytes | None = None) -> subprocess.CompletedProcess[str]:
        """Run a git command that may fail; its messages are in English, its paths unquoted."""
        ran = self.raw(*arguments, given=given)
        out, err = (end.decode("utf-8", "replace") for end in (ran.stdout, ran.stderr))
        return subprocess.CompletedProcess(ran.args, ran.returncode, out, err)

    def raw(
        self, *arguments: str, given: bytes | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Like `try_`, for output that need not be text."""
        environ = {**os.environ, "LC_ALL": "C.UTF-8", "GIT_OPTIONAL_LOCKS": "0"}
        if self.index:
            environ["GIT_INDEX_FILE"] = str(self.index)
        return subprocess.run(
            ["git", "-c", "core.quotePath=false", *arguments],
            cwd=self.folder,
            env=environ,
            input=given,
            stdin=None if given is not None else subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )

    def content(self, name: str) -> bytes | None:
        """A blob's content by git's name for it ("HEAD:README.md"); None if there is none."""
        ran = self.raw("cat-file", "blob", name)
        return None if ran.returncode else ran.stdout

    def paths(self, *arguments: str) -> tuple[str, ...]:
        """The paths that a command prints when it is given -z."""
        return tuple(path for path in self(*arguments).split("\0") if path)


def git_in(folder: Path) -> Git:
    """Git for a folder that is the top of a work tree. Raises NoGit, which says what is missing.

    One that is inside of another repository, such as an unpacked archive, is refused: what is
    written for it would go into that one.
    """
    if shutil.which("git") is None:
        raise NoGit("git is not installed")
    git = Git(folder)
    inside = git.try_("rev-parse", "--is-inside-work-tree", "--show-prefix")
    if inside.returncode:
        error = inside.stderr.strip().removeprefix("fatal: ")
        if error.startswith("not a git repository"):
            raise NoRepository("not a git repository")
        # Such as where another user owns the folder: git says in the last line what to do about it.
        first, *rest = (line.strip() for line in error.splitlines() if line.strip())
        raise NoGit(f"{first}; {' '.join(rest)}" if rest else first)
    is_inside, _, prefix = inside.stdout.partition("\n")
    if is_inside != "true":
        raise NoGit("a git repository without a work tree")
    if prefix.strip():
        top = git("rev-parse", "--show-toplevel").strip()
        raise NoRepository(f"this folder is inside of another git repository, {top}")
    return git


def require_writable(git: Git) -> None:
    """Raise GitError where git can't write to its repository, as in a read-only clone."""
    place = Path(git("rev-parse", "--absolute-git-dir").strip())
    if not os.access(place, os.W_OK):
        raise GitError(f"{place} can't be written to: this needs a clone that you may change")


def blob_id(content: bytes) -> str:
    """The id that git gives a file's content (SHA-1, 40 hex digits), line ends as git stores them.

    A clone that writes CRLF into its work tree (core.autocrlf) has the same id as one that doesn't.
    """
    stored = content.replace(b"\r\n", b"\n")
    return hashlib.sha1(b"blob %d\0" % len(stored) + stored, usedforsecurity=False).hexdigest()


#: What git keeps while a command of its own is not finished, and which command that is.
_UNFINISHED = {
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
}


def require_finished(git: Git) -> None:
    """Raises GitError, with the ways out, while git is in the middle of a merge or rebase."""
    for name, command in _UNFINISHED.items():
        if (git.folder / git("rev-parse", "--git-path", name).strip()).exists():
            ways = f"git {command} --continue or git {command} --abort"
            raise GitError(f"a {command} is not finished: first run {ways}")
