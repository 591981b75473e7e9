"""Where an update comes from, and whether this repository is in a state to take it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from grader.tools.git import (
    Git,
    GitError,
    NoRepository,
    git_in,
    require_finished,
    require_writable,
)

UPSTREAM, ORIGIN = "upstream", "origin"
ADD_UPSTREAM = (
    "git remote add upstream URL, with the URL of the repository that yours was forked from"
)


class CannotUpdate(ValueError):
    """An update cannot be taken; nothing was changed. The text says why, and the way out."""


@dataclass(frozen=True, slots=True)
class Source:
    """A branch of another repository as it was fetched: "upstream", "main", 40 hex digits."""

    remote: str
    branch: str
    commit: str

    def __str__(self) -> str:
        return f"{self.remote}/{self.branch}"


def ready(root: Path) -> Git:
    """Git for a repository that can take an update now. Raises CannotUpdate."""
    try:
        git = git_in(root)
        require_writable(git)
    except NoRepository as error:
        raise CannotUpdate(
            f"{error}, and an update merges along git's history: clone the katas with git clone, "
            "and copy your kata files into that clone"
        ) from None
    except GitError as error:
        raise CannotUpdate(str(error)) from None
    if git.try_("rev-parse", "--verify", "--quiet", "HEAD").returncode:
        raise CannotUpdate("this repository has no commit yet: there is nothing to merge with")
    try:
        require_finished(git)
    except GitError as error:
        raise CannotUpdate(str(error)) from None
    if unmerged := sorted({line.split("\t")[1] for line in git.paths("ls-files", "-u", "-z")}):
        raise CannotUpdate(f"{unmerged[0]} has conflicts: resolve them first, then git add it")
    if git.try_("symbolic-ref", "--quiet", "HEAD").returncode:
        raise CannotUpdate(
            "no branch is checked out, so that the merged commit would belong to none: "
            "git switch BRANCH first, or git switch -c NAME for a new one"
        )
    return git


def remote(git: Git, given: str | None) -> str:
    """What to update from: as given, else the remote "upstream", else "origin".

    Raises CannotUpdate where there is none.
    """
    remotes = git("remote").split()
    found = given or next((name for name in (UPSTREAM, ORIGIN) if name in remotes), None)
    if found is None:
        raise CannotUpdate(f"there is no remote to update from: {ADD_UPSTREAM}")
    return found


def fetch(git: Git, remote: str, branch: str | None) -> Source:
    """Fetch a branch, the remote's default one unless named. Raises CannotUpdate where it fails."""
    try:
        branch = branch or _default_branch(git, remote)
        git("fetch", "--quiet", "--no-tags", "--", remote, f"refs/heads/{branch}")
    except GitError as error:
        raise CannotUpdate(f"cannot fetch from {remote}: {error}") from None
    return Source(remote, branch, git("rev-parse", "FETCH_HEAD").strip())


def _default_branch(git: Git, remote: str) -> str:
    for line in git("ls-remote", "--symref", "--", remote, "HEAD").splitlines():
        if line.startswith("ref: refs/heads/"):
            return line.split("\t")[0].removeprefix("ref: refs/heads/")
    raise CannotUpdate(f"{remote} has no default branch: name one, kata update --branch NAME")


def common(git: Git, source: Source) -> str:
    """The commit at which the histories part. A shallow clone fetches the rest of its own first.

    Raises CannotUpdate where they have none in common.
    """
    base = git.try_("merge-base", "HEAD", source.commit)
    if base.returncode and git("rev-parse", "--is-shallow-repository").strip() == "true":
        for remote in dict.fromkeys([source.remote, *git("remote").split()]):
            git.try_("fetch", "--quiet", "--no-tags", "--unshallow", "--", remote)
        base = git.try_("merge-base", "HEAD", source.commit)
    if base.returncode:
        raise CannotUpdate(
            f"{source} shares no history with this repository. Is it the one that yours was cloned "
            "from? A copy made without its history (from a template, or of an unpacked archive) "
            "cannot be merged: clone it anew, and copy your kata files over it"
        )
    return base.stdout.strip()
