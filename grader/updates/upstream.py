"""Checks that a clone can be updated, fetches upstream, and summarizes an update.

The summary is read from git alone, because the update may have removed files.

Upstream of a folder that `kata init` has written is the installed package. Each version of the
course is a commit of its files as installed, on a line of history of its own, which the learner's
branch contains from the beginning. So an update is a merge, as in a clone. The message of such a
commit ends with its version and its tree:

    Kata-Course: 0.2.0 <git's id of the tree>

A commit that a rebase has changed has another tree, and isn't taken for the course.
"""

from __future__ import annotations

import shutil
import tempfile
import tomllib
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from grader.exercise.catalog import (
    KATAS,
    SETTINGS,
    SOLUTIONS,
    CourseSettings,
    Kata,
    in_order,
    kata_at,
    settings,
)
from grader.exercise.repository import write_course
from grader.exercise.templates import course_choice
from grader.tools.git import Git, GitError, NoRepository, git_in, require_finished, require_writable
from pallascope.tools.versions import PACKAGE, repository_address, versions

UPSTREAM, ORIGIN = "upstream", "origin"
ADD_UPSTREAM = (
    "git remote add upstream URL, with the URL of the repository that yours was forked from"
)


class CannotUpdate(ValueError):
    """The clone can't be updated, and nothing was changed. The text has the reason and a remedy."""


@dataclass(frozen=True, slots=True)
class Upstream:
    """A fetched branch of another repository: "upstream", "main", 40 hex digits.

    Of an installed course: "pallas-katas", its version, and the commit with its files.
    """

    remote: str
    branch: str
    commit: str

    def __str__(self) -> str:
        return f"{self.remote}{' ' if self.is_installed else '/'}{self.branch}"

    @property
    def is_installed(self) -> bool:
        return self.remote == PACKAGE


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


# ---- the installed course ----

_TRAILER = "Kata-Course"
_AS = ("-c", "user.name=Pallas Katas", "-c", "user.email=katas@localhost")


@dataclass(frozen=True, slots=True)
class WrittenCourse:
    """The files that were kept because they existed, and why nothing was committed, or ""."""

    kept: tuple[str, ...]
    trouble: str


def begin(root: Path, choice: CourseSettings) -> WrittenCourse:
    """Write the course to `root`, make it a repository unless it is one, and commit the course.

    Files that exist are kept. Raises CannotUpdate, with nothing written, if katas or settings that
    have to be written exist, or if changes are staged.
    """
    with _course_in_a_temporary_folder(choice) as course:
        files = _files_below(course)
        kept = tuple(name for name in files if (root / name).exists())
        _require_free(root, kept, choice)
        git, trouble = _git_if_any(root)
        if git and git("diff", "--cached", "--name-only").strip():
            raise CannotUpdate("nothing was written: commit your staged changes, and try again")
        for name in files:
            if name in kept:
                (course / name).unlink()
                continue
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(course / name, root / name)
        if not trouble:
            try:
                _commit_first(git or _new_repository(root), course)
            except GitError as error:
                trouble = str(error)
    return WrittenCourse(kept, trouble)


def _require_free(root: Path, kept: Collection[str], choice: CourseSettings) -> None:
    if any(name.startswith(f"{KATAS}/") for name in kept):
        raise CannotUpdate(
            f"nothing was written: {root} has a folder {KATAS} already; kata update gets new katas"
        )
    if SETTINGS in kept and choice != settings(root):
        raise CannotUpdate(
            f"nothing was written: your choice belongs into {SETTINGS}, which exists. Add it:\n"
            f"{course_choice(choice).strip()}"
        )


def _git_if_any(root: Path) -> tuple[Git | None, str]:
    """Git if `root` is a repository; else why there can be none, "" if there can."""
    try:
        return git_in(root), ""
    except NoRepository as error:
        return None, str(error) if error.outer else ""
    except GitError as error:
        return None, str(error)


def _new_repository(root: Path) -> Git:
    Git(root)("init", "--quiet")
    return git_in(root)


def _commit_first(git: Git, course: Path) -> None:
    """Commit the files of `course` on a line of history of their own, and merge it into HEAD."""
    commit = _commit_course(git, _tree_of(git, course))
    has_commits = not git.run("rev-parse", "--verify", "--quiet", "HEAD").returncode
    if has_commits:
        tree = _tree_of(git, course, onto="HEAD")
        parents = ("-p", "HEAD", "-p", commit)
        subject = f"Add the katas of {PACKAGE} {_installed_version()}"
        commit = git(*_AS, "commit-tree", tree, *parents, "-m", subject).strip()
    git("update-ref", "HEAD", commit)
    git("reset", "--quiet")


def installed(git: Git) -> Upstream:
    """The course as installed, as a commit whose parent is the course that HEAD contains.

    Raises CannotUpdate if HEAD contains none.
    """
    last, last_tree = _last_course(git)
    with _course_in_a_temporary_folder(settings(git.folder)) as course:
        # Files that `kata init` found in the folder were never part of the course.
        known = git.paths("ls-tree", "-r", "-z", "--name-only", last)
        for name in set(_files_below(course)).difference(known):
            if (git.folder / name).exists() and not name.startswith(f"{KATAS}/"):
                (course / name).unlink()
        tree = _tree_of(git, course)
    commit = last if tree == last_tree else _commit_course(git, tree, last)
    return Upstream(PACKAGE, _installed_version(), commit)


def _last_course(git: Git) -> tuple[str, str]:
    """The newest commit with the files of a course in HEAD's history, and its tree."""
    value = f"%(trailers:key={_TRAILER},valueonly)"
    log = ("log", "--topo-order", f"--format=%H %T {value}", f"--grep=^{_TRAILER}: ", "HEAD")
    if git("rev-parse", "--is-shallow-repository").strip() == "true":
        git.run("fetch", "--quiet", "--no-tags", "--unshallow")
    for line in git(*log).splitlines():
        match line.split():
            case [commit, tree, _, written] if tree == written:
                return commit, tree
    raise CannotUpdate(
        "no commit of this repository has the katas as they were installed, so there is nothing to "
        "merge with. Begin again: kata init FOLDER, copy your katas into it, and commit them"
    )


def _commit_course(git: Git, tree: str, parent: str = "") -> str:
    """A commit of `tree` as the installed course. Returns its id."""
    version = _installed_version()
    message = f"The katas of {PACKAGE} {version}\n\n{_TRAILER}: {version} {tree}"
    parents = ("-p", parent) if parent else ()
    return git(*_AS, "commit-tree", tree, *parents, "-m", message).strip()


def _tree_of(git: Git, folder: Path, onto: str = "") -> str:
    """The tree with all files below `folder`, added to those of the commit `onto`."""
    repository = git("rev-parse", "--absolute-git-dir").strip()
    with tempfile.TemporaryDirectory(prefix="kata-index-") as place:
        there = Git(folder, Path(place, "index"))
        where = (f"--git-dir={repository}", f"--work-tree={folder}")
        if onto:
            there(*where, "read-tree", onto)
            names = _files_below(folder)
            there(*where, "add", "--force", "--", *names)
        else:
            there(*where, "add", "--all", "--force", "--", ".")
        return there(*where, "write-tree").strip()


@contextmanager
def _course_in_a_temporary_folder(choice: CourseSettings) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="kata-course-") as folder:
        place = Path(folder, "course")
        place.mkdir()
        write_course(place, choice, f"{repository_address()}/blob/HEAD")
        yield place


def _files_below(folder: Path) -> list[str]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return sorted(file.relative_to(folder).as_posix() for file in files)


def _installed_version() -> str:
    return versions()[PACKAGE] or ""


# ---- the summary ----


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
    data = git.content(f"{commit}:{SETTINGS}") or b""
    try:
        project = tomllib.loads(data.decode()).get("project", {})
    except ValueError:
        return data
    names = ("requires-python", "dependencies", "optional-dependencies", "scripts", "entry-points")
    return [project.get(name) for name in names]
