"""Checks that a clone can be updated, fetches upstream, and summarizes an update.

The summary is read from git alone, because the update may have removed files.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from grader.exercise.catalog import KATAS, SOLUTIONS, Kata, in_order, kata_at
from grader.tools.git import Git, GitError, NoRepository, git_in, require_finished, require_writable

UPSTREAM, ORIGIN = "upstream", "origin"
ADD_UPSTREAM = (
    "git remote add upstream URL, with the URL of the repository that yours was forked from"
)


class CannotUpdate(ValueError):
    """The clone can't be updated, and nothing was changed. The text has the reason and a remedy."""


@dataclass(frozen=True, slots=True)
class Upstream:
    """A fetched branch of another repository: "upstream", "main", 40 hex digits."""

    remote: str
    branch: str
    commit: str

    def __str__(self) -> str:
        return f"{self.remote}/{self.branch}"


def require_ready(root: Path) -> Git:
    """Git for a repository that can be updated now. Raises CannotUpdate."""
    try:
        git = git_in(root)
        require_writable(git)
    except NoRepository as error:
        raise CannotUpdate(
            f"{error}, and an update needs git's history: clone the katas with git clone, "
            "and copy your kata files into that clone"
        ) from None
    except GitError as error:
        raise CannotUpdate(str(error)) from None
    if git.run("rev-parse", "--verify", "--quiet", "HEAD").returncode:
        raise CannotUpdate("this repository has no commit yet: there is nothing to merge with")
    try:
        require_finished(git)
    except GitError as error:
        raise CannotUpdate(str(error)) from None
    if unmerged := sorted({line.split("\t")[1] for line in git.paths("ls-files", "-u", "-z")}):
        raise CannotUpdate(f"{unmerged[0]} has conflicts: resolve them first, then git add it")
    if git.run("symbolic-ref", "--quiet", "HEAD").returncode:
        raise CannotUpdate(
            "no branch is checked out, so the merge commit would be on no branch: "
            "git switch BRANCH first, or git switch -c NAME for a new one"
        )
    return git


def choose_remote(git: Git, given: str | None) -> str:
    """The remote to update from: `given`, else "upstream", else "origin". Raises CannotUpdate."""
    remotes = git("remote").split()
    chosen = given or next((name for name in (UPSTREAM, ORIGIN) if name in remotes), None)
    if chosen is None:
        raise CannotUpdate(f"this clone has no remote to update from: {ADD_UPSTREAM}")
    return chosen


def fetch(git: Git, remote: str, branch: str | None) -> Upstream:
    """Fetch a branch, by default the remote's default branch. Raises CannotUpdate if it fails."""
    try:
        branch = branch or _default_branch(git, remote)
        git("fetch", "--quiet", "--no-tags", "--", remote, f"refs/heads/{branch}")
    except GitError as error:
        raise CannotUpdate(f"cannot fetch from {remote}: {error}") from None
    return Upstream(remote, branch, git("rev-parse", "FETCH_HEAD").strip())


def _default_branch(git: Git, remote: str) -> str:
    for line in git("ls-remote", "--symref", "--", remote, "HEAD").splitlines():
        if line.startswith("ref: refs/heads/"):
            return line.split("\t")[0].removeprefix("ref: refs/heads/")
    raise CannotUpdate(f"{remote} has no default branch: name one, kata update --branch NAME")


def merge_base(git: Git, source: Upstream) -> str:
    """The merge base of HEAD and the fetched commit. A shallow clone is unshallowed if necessary.

    Raises CannotUpdate if the histories have no common commit.
    """
    base = git.run("merge-base", "HEAD", source.commit)
    if base.returncode and git("rev-parse", "--is-shallow-repository").strip() == "true":
        for remote in dict.fromkeys([source.remote, *git("remote").split()]):
            git.run("fetch", "--quiet", "--no-tags", "--unshallow", "--", remote)
        base = git.run("merge-base", "HEAD", source.commit)
    if base.returncode:
        raise CannotUpdate(
            f"{source} shares no history with this repository. Is it the one that yours was cloned "
            "from? A copy made without its history (from a template, or of an unpacked archive) "
            "cannot be merged: clone it again, and copy your kata files over it"
        )
    return base.stdout.strip()


PROJECT = "pyproject.toml"


@dataclass(frozen=True, slots=True)
class UpdateSummary:
    """The changes of an update. `others` are the paths of all other changed files."""

    commits: int
    tracks: dict[str, int]  # new tracks, and the number of katas in each
    new: tuple[Kata, ...]  # new katas in old tracks
    changed: tuple[Kata, ...]  # katas with a changed file, solution or key
    removed: tuple[Kata, ...]
    others: tuple[str, ...]
    reinstall: bool  # the package's requirements have changed


def summarize_update(git: Git, old: str, new: str, theirs: str) -> UpdateSummary:
    """The changes from `old` to `new`, the commits of HEAD before and after merging `theirs`."""
    fields = git.paths("diff", "--name-status", "-z", "--no-renames", old, new)
    status_by_path = dict(zip(fields[1::2], fields[::2], strict=True))
    by_kata: dict[Kata, str] = {}
    for path, status in status_by_path.items():
        if kata := kata_of(git.folder, path):
            is_stub = path.startswith(f"{KATAS}/")
            by_kata[kata] = status if is_stub else by_kata.get(kata, "M")
    old_tracks = {
        path.split("/")[1]
        for path in git.paths("ls-tree", "-r", "-z", "--name-only", old, KATAS + "/")
        if path.count("/") == 2
    }
    added = _katas_with_status(by_kata, "A")
    return UpdateSummary(
        commits=int(git("rev-list", "--count", theirs, f"^{old}")),
        tracks=dict(Counter(kata.track for kata in added if kata.track not in old_tracks)),
        new=tuple(kata for kata in added if kata.track in old_tracks),
        changed=_katas_with_status(by_kata, "M"),
        removed=_katas_with_status(by_kata, "D"),
        others=tuple(path for path in status_by_path if not kata_of(git.folder, path)),
        reinstall=_install_requirements(git, old) != _install_requirements(git, new),
    )


def kata_of(root: Path, path: str) -> Kata | None:
    """The kata whose file, solution or key is `path`, relative to the root; None for others."""
    kata_path = Path(path)
    if kata_path.parts[0] == SOLUTIONS:
        kata_path = Path(KATAS, *kata_path.parts[1:]).with_suffix(".py")
    return kata_at(root, root / kata_path)


def changed_by_learner(
    git: Git, base: str, old: str, uncommitted: Collection[str]
) -> frozenset[str]:
    """The ids of the katas that the learner has changed since `base`, committed or not."""
    paths = git.paths("diff", "--name-only", "-z", "--no-renames", base, old, "--", KATAS)
    changed = (kata_at(git.folder, git.folder / path) for path in (*paths, *uncommitted))
    return frozenset(kata.id for kata in changed if kata)


def _katas_with_status(by_kata: dict[Kata, str], wanted: str) -> tuple[Kata, ...]:
    return in_order(kata for kata, status in by_kata.items() if status == wanted)


def _install_requirements(git: Git, commit: str) -> object:
    """The parts of pyproject.toml that determine an installation; its bytes if it isn't TOML."""
    data = git.content(f"{commit}:{PROJECT}") or b""
    try:
        project = tomllib.loads(data.decode()).get("project", {})
    except ValueError:
        return data
    names = ("requires-python", "dependencies", "optional-dependencies", "scripts", "entry-points")
    return [project.get(name) for name in names]
