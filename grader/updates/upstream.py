"""Where an update comes from, and a summary of what it brought.

Where an update comes from, and whether this repository is in a state to take it.

What an update brought, read from git alone: the files of before may be gone by now.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from grader.exercise.catalog import (
    KATAS,
    SOLUTIONS,
    Kata,
    kata_at,
)
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
class Upstream:
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


def fetch(git: Git, remote: str, branch: str | None) -> Upstream:
    """Fetch a branch, the remote's default one unless named. Raises CannotUpdate where it fails."""
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


def common(git: Git, source: Upstream) -> str:
    """The commit at which the histories part. A shallow clone fetches the rest of its own first.

    Raises CannotUpdate where they have none in common.
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
            "cannot be merged: clone it anew, and copy your kata files over it"
        )
    return base.stdout.strip()


PROJECT = "pyproject.toml"


@dataclass(frozen=True, slots=True)
class News:
    """Katas in the order of their places; `others` are all other files that changed, as paths."""

    commits: int
    tracks: dict[str, int]  # new ones, with how many katas
    new: tuple[Kata, ...]  # in tracks that were there
    changed: tuple[Kata, ...]  # their file, solution or key
    removed: tuple[Kata, ...]
    others: tuple[str, ...]
    reinstall: bool  # what the package asks for is not what was installed


def news(git: Git, old: str, new: str, theirs: str) -> News:
    """What differs between HEAD before (`old`) and after (`new`) commits of `theirs` came in."""
    fields = git.paths("diff", "--name-status", "-z", "--no-renames", old, new)
    letters = dict(zip(fields[1::2], fields[::2], strict=True))
    by_kata: dict[Kata, str] = {}
    for path, letter in letters.items():
        if kata := kata_of(git.folder, path):
            of_learner = path.startswith(f"{KATAS}/")
            by_kata[kata] = letter if of_learner else by_kata.get(kata, "M")
    had = {
        path.split("/")[1]
        for path in git.paths("ls-tree", "-r", "-z", "--name-only", old, KATAS + "/")
        if path.count("/") == 2
    }
    added = _those(by_kata, "A")
    return News(
        commits=int(git("rev-list", "--count", theirs, f"^{old}")),
        tracks=dict(Counter(kata.track for kata in added if kata.track not in had)),
        new=tuple(kata for kata in added if kata.track in had),
        changed=_those(by_kata, "M"),
        removed=_those(by_kata, "D"),
        others=tuple(path for path in letters if not kata_of(git.folder, path)),
        reinstall=_asks_for(git, old) != _asks_for(git, new),
    )


def kata_of(root: Path, path: str) -> Kata | None:
    """The kata of which `path`, relative to the root, is the file, the solution or the key."""
    at = Path(path)
    if at.parts[0] == SOLUTIONS:
        at = Path(KATAS, *at.parts[1:]).with_suffix(".py")
    return kata_at(root, root / at)


def holding_work(git: Git, base: str, old: str, dirty: Collection[str]) -> frozenset[str]:
    """The ids of the katas that the learner has changed since `base`, committed or not."""
    paths = git.paths("diff", "--name-only", "-z", "--no-renames", base, old, "--", KATAS)
    found = (kata_at(git.folder, git.folder / path) for path in (*paths, *dirty))
    return frozenset(kata.id for kata in found if kata)


def _those(by_kata: dict[Kata, str], letter: str) -> tuple[Kata, ...]:
    return in_order(kata for kata, found in by_kata.items() if found == letter)


def in_order(katas: Iterable[Kata]) -> tuple[Kata, ...]:
    """By the number of the track, then of the kata."""
    return tuple(sorted(katas, key=lambda k: (int(k.track.split("_")[0]), int(k.number), k.id)))


def _asks_for(git: Git, commit: str) -> object:
    """What decides about an installation; the text itself where it is no TOML."""
    data = git.content(f"{commit}:{PROJECT}") or b""
    try:
        project = tomllib.loads(data.decode()).get("project", {})
    except ValueError:
        return data
    names = ("requires-python", "dependencies", "optional-dependencies", "scripts", "entry-points")
    return [project.get(name) for name in names]
