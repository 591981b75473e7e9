"""Merges upstream into a clone, with its uncommitted changes.

`merge_upstream` starts a git merge and resolves katas region by region. It runs in a temporary work
tree first (`temporary_worktree`), so that the learner's files change only if the merge succeeds.
"""

from __future__ import annotations

import datetime
import os
import signal
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from grader.exercise import repository
from grader.exercise.catalog import KATAS, Kata, is_course, kata_at
from grader.tools.git import Git, GitError
from grader.updates import file_merge
from grader.updates.file_merge import MergeKind
from grader.updates.upstream import CannotUpdate


@dataclass(frozen=True, slots=True)
class PendingChange:
    """An uncommitted change of a file that an update changes too. None: the file doesn't exist."""

    path: str
    before: bytes | None
    after: bytes | None
    staged: bool


def plan_pending(git: Git, target: str) -> tuple[PendingChange, ...]:
    """The uncommitted changes, merged with the commit `target`.

    Only katas and the ledger are merged. Raises CannotUpdate with the names of other files that the
    update changes too, and of files with conflicts.
    """
    changed = _changes(git, "HEAD", target)
    _require_no_untracked(git, changed)
    pending_changes, refused_paths = [], []
    for path, state in _uncommitted(git).items():
        if path in changed:
            change = _pending(git, path, state, target)
            (pending_changes if change else refused_paths).append(change or path)
    _require_none(refused_paths)
    return tuple(pending_changes)


def require_mergeable(git: Git, base: str, theirs: str) -> None:
    """Raise CannotUpdate unless a merge with conflicts can be started, and be aborted."""
    changed = _changes(git, base, theirs)
    _require_no_untracked(git, _changes(git, "HEAD", theirs))
    states = _uncommitted(git)
    _require_none([path for path, state in states.items() if path in changed or state[0] != " "])


def _changes(git: Git, old: str, new: str) -> dict[str, str]:
    """The files that differ between two commits: path -> "A", "M" or "D"."""
    fields = git.paths("diff", "--name-status", "-z", "--no-renames", old, new)
    return dict(zip(fields[1::2], fields[::2], strict=True))


def _uncommitted(git: Git) -> dict[str, str]:
    """Tracked files that differ from HEAD: path -> git's two letters, for index and file."""
    lines = git.paths("status", "--porcelain", "-z", "--no-renames", "--untracked-files=no")
    return {line[3:]: line[:2] for line in lines}


def _require_no_untracked(git: Git, changed: dict[str, str]) -> None:
    """Raise CannotUpdate if the update adds an untracked file. Git would overwrite ignored ones."""
    added = [path for path, letter in changed.items() if letter == "A"]
    if existing := [path for path in added if os.path.lexists(git.folder / path)]:
        raise CannotUpdate(
            "nothing was changed: the update adds files that you have already\n"
            + _listed(existing)
            + f"\ncommit them, or move them away (mv {existing[0]} {existing[0]}.mine), "
            "and update again"
        )


def _require_none(paths: Sequence[str]) -> None:
    if paths:
        raise CannotUpdate(
            "nothing was changed: your changes are not committed, and the update needs these "
            "files\n"
            + _listed(paths)
            + "\ncommit them (kata commit, git commit) or stash them (git stash), and update again"
        )


def _listed(paths: Sequence[str]) -> str:
    return "\n".join(f"  {path}" for path in paths)


def _pending(git: Git, path: str, state: str, target: str) -> PendingChange | None:
    """The merged change of one file; None if it can't be merged."""
    base, theirs = git.content(f"HEAD:{path}"), git.content(f"{target}:{path}")
    file = git.folder / path
    if file_merge.merge_kind(path) is MergeKind.OTHER or state not in (" M", "M ", " D"):
        return None
    if base is None or theirs is None or file.is_symlink():
        return None
    if state == " D":
        return PendingChange(path, None, None, staged=False)
    ours = file.read_bytes()
    merged = file_merge.merge_file(git, path, base, ours, theirs)
    if merged.conflicts:
        return None
    return PendingChange(path, ours, merged.data, staged=state == "M ")


def move_head(git: Git, target: str, pending: Sequence[PendingChange]) -> None:
    """Move HEAD, index and files to `target`, a descendant, with the uncommitted changes.

    Katas are saved as attempts first. Either everything moves or nothing. Raises GitError.
    """
    now = datetime.datetime.now()
    for change in pending:
        kata = kata_at(git.folder, git.folder / change.path)
        if kata and change.before is not None:
            repository.save_attempt(kata, now)
    with signals_ignored():
        try:
            if pending:
                git("checkout", "--quiet", "HEAD", "--", *(change.path for change in pending))
            options = ("--quiet", "--ff-only", "--no-overwrite-ignore")
            git("-c", "merge.autoStash=false", "merge", *options, target)
        finally:
            moved = git("rev-parse", "HEAD").strip() == target
            for change in pending:
                _write(git, change, change.after if moved else change.before)


def _write(git: Git, change: PendingChange, content: bytes | None) -> None:
    file = git.folder / change.path
    if content is None:
        file.unlink(missing_ok=True)
        return
    file.write_bytes(content)
    if change.staged:
        git("add", "--", change.path)


@contextmanager
def signals_ignored() -> Iterator[None]:
    """Ignore SIGINT, SIGTERM and SIGHUP, so that neither this process nor git stops halfway."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    names = ("SIGINT", "SIGTERM", "SIGHUP") if in_main_thread else ()
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


MESSAGE = "kata update: "

#: Override the learner's settings: no hooks, no guesses about renamed folders, no automatic stash,
#: and no errors about line ends.
_SETTINGS = tuple(
    word
    for setting in (
        f"core.hooksPath={os.devnull}",
        "core.safecrlf=false",
        "merge.directoryRenames=false",
        "merge.autoStash=false",
    )
    for word in ("-c", setting)
)
#: Katas resemble each other, so renames are detected only for nearly unchanged files.
_RENAME_THRESHOLD = "find-renames=75%"


@dataclass(frozen=True, slots=True)
class Conflict:
    """A file that both sides changed. `lines` are the lines of the markers, 1-based."""

    path: str
    lines: tuple[int, ...]
    description: str


@dataclass(slots=True)
class Merge:
    """The result of a merge, in addition to git's own."""

    conflicts: list[Conflict] = field(default_factory=list)
    kept_katas: list[str] = field(default_factory=list)  # katas that upstream removed
    deleted_katas: list[str] = field(default_factory=list)  # katas that the learner removed


@contextmanager
def temporary_worktree(git: Git) -> Iterator[Git]:
    """Check out HEAD in a temporary work tree while the block runs."""
    with tempfile.TemporaryDirectory(prefix="kata-update-") as folder:
        path = Path(folder, "tree")
        try:
            git(*_SETTINGS, "worktree", "add", "--quiet", "--detach", str(path), "HEAD")
            yield Git(path)
        finally:
            git.run("worktree", "remove", "--force", str(path))


def commit_merge(git: Git) -> str:
    """Commit the merge in a work tree of `temporary_worktree`. Returns the commit's id."""
    git(*_SETTINGS, "commit", "--quiet", "--no-verify", "--no-edit")
    return git("rev-parse", "HEAD").strip()


def merge_upstream(git: Git, theirs: str, base: str, message: str) -> Merge:
    """Merge the commit `theirs` into HEAD, without committing. Conflicts are left in the files.

    Raises GitError if git refuses to start. A failure aborts the merge.
    """
    options = ("--no-commit", "--no-ff", "--quiet", "-X", _RENAME_THRESHOLD, "-m", message)
    result = git.run(*_SETTINGS, "merge", *options, theirs)
    if git.run("rev-parse", "--verify", "--quiet", "MERGE_HEAD").returncode:
        raise GitError(f"git merge: {(result.stderr or result.stdout).strip()}")
    try:
        return _resolve_all(git, theirs, base)
    except BaseException:
        git.run("merge", "--abort")
        raise


def abort_merge(git: Git) -> None:
    """Abort a merge that `merge_upstream` has started. Raises CannotUpdate if there is none."""
    if git.run("rev-parse", "--verify", "--quiet", "MERGE_HEAD").returncode:
        raise CannotUpdate("no update is under way: there is nothing to undo")
    message_file = Path(git.folder, git("rev-parse", "--git-path", "MERGE_MSG").strip())
    if not (message_file.exists() and message_file.read_text(encoding="utf-8").startswith(MESSAGE)):
        raise CannotUpdate("the merge under way was not started by kata update: git merge --abort")
    git("merge", "--abort")


def _resolve_all(git: Git, theirs: str, base: str) -> Merge:
    merge = Merge()
    unmerged = _unmerged(git)
    for path in _changed_by_both(git, theirs, base):
        if path not in unmerged:
            sides = [git.content(f"{side}:{path}") for side in (base, "HEAD", theirs)]
            _resolve(git, path, sides, merge)
    for path, blobs in unmerged.items():
        sides = [git.content(blobs[stage]) if stage in blobs else None for stage in (1, 2, 3)]
        _resolve(git, path, sides, merge)
    return merge


def _changed_by_both(git: Git, theirs: str, base: str) -> list[str]:
    """Kata files that both sides changed. Git may have merged them without regard to regions."""
    sides = [
        git.paths(
            "diff", "--name-only", "-z", "--no-renames", "--diff-filter=M", base, side, "--", KATAS
        )
        for side in ("HEAD", theirs)
    ]
    both = set(sides[0]).intersection(sides[1])
    return sorted(path for path in both if file_merge.merge_kind(path) is MergeKind.KATA)


def _unmerged(git: Git) -> dict[str, dict[int, str]]:
    """Files that git could not merge: path -> the blobs of base (1), ours (2) and theirs (3)."""
    blobs: dict[str, dict[int, str]] = {}
    for line in git.paths("ls-files", "--unmerged", "-z"):
        metadata, path = line.split("\t")
        _, blob, stage = metadata.split(" ")
        blobs.setdefault(path, {})[int(stage)] = blob
    return blobs


def _resolve(git: Git, path: str, sides: list[bytes | None], merge: Merge) -> None:
    """Resolve one path, or record its conflict."""
    base, ours, theirs = sides
    kind = file_merge.merge_kind(path)
    if ours is None and theirs is None:  # both sides moved it
        git("rm", "--quiet", "--cached", "--", path)
        return
    if theirs is None or ours is None:
        _resolve_removed(git, path, ours is not None, base is not None, merge)
        return
    if kind is MergeKind.KATA and base is None and file_merge.same_outside(*_texts(ours, theirs)):
        base = theirs  # the learner copied a kata that upstream adds now
    if base is None and kind is not MergeKind.LEDGER:
        merge.conflicts.append(_conflict(git, path, "both sides added it"))
        return
    try:
        result = file_merge.merge_file(git, path, base or b"", ours, theirs)
    except GitError:  # not a text file
        description = f"not a text file: git checkout --ours {path}, or --theirs"
        merge.conflicts.append(Conflict(path, (), description))
        return
    Path(git.folder, path).write_bytes(result.data)
    if result.conflicts:
        merge.conflicts.append(_conflict(git, path, "both sides changed these lines"))
    else:
        _add(git, path)


def _add(git: Git, path: str) -> None:
    git(*_SETTINGS, "add", "--force", "--", path)


def _texts(*sides: bytes) -> list[str]:
    return [side.decode("utf-8", "surrogateescape").replace("\r\n", "\n") for side in sides]


def _resolve_removed(git: Git, path: str, is_ours: bool, in_base: bool, merge: Merge) -> None:
    """One side changed a file that the other removed. For a kata, the learner's side is kept."""
    kata = kata_at(git.folder, git.folder / path)
    if kata is None or not in_base:
        description = (
            "upstream removed it, you changed it" if is_ours else "you removed it, upstream didn't"
        )
        merge.conflicts.append(
            Conflict(path, (), f"{description}: git add {path}, or git rm {path}")
        )
    elif is_ours:
        _add(git, path)
        _keep_solution(git, kata)
        merge.kept_katas.append(kata.id)
    else:
        git("rm", "--quiet", "--force", "--", path)
        merge.deleted_katas.append(kata.id)


def _keep_solution(git: Git, kata: Kata) -> None:
    """Keep the solution and key of a kept kata in a clone, even if upstream removed them."""
    if is_course(git.folder):
        return
    for file in (kata.solution, kata.key_path):
        name = file.relative_to(git.folder).as_posix()
        if not file.exists() and git.content(f"HEAD:{name}") is not None:
            git("checkout", "HEAD", "--", name)


def _conflict(git: Git, path: str, description: str) -> Conflict:
    data = Path(git.folder, path).read_bytes().split(b"\n")
    lines = [number for number, line in enumerate(data, 1) if line.startswith(b"<<<<<<<")]
    return Conflict(path, tuple(lines), description)
