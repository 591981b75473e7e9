"""Merges upstream into a clone, with its uncommitted changes.

What the learner has not committed, carried over an update or standing in its way.

A git merge whose kata files are merged along their fences.
`merge` leaves a merge under way in a work tree, with everything resolved that can be; `aside` makes
a work tree to try that in, so that the learner's own changes only once the result is known.
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
from grader.exercise.catalog import KATAS, Kata, kata_at
from grader.tools.git import Git, GitError
from grader.updates import file_merge
from grader.updates.file_merge import MergeKind
from grader.updates.upstream import CannotUpdate


@dataclass(frozen=True, slots=True)
class Pending:
    """An uncommitted change of a file that an update changes too. None: the file is deleted."""

    path: str
    before: bytes | None
    after: bytes | None
    staged: bool


def planned(git: Git, target: str) -> tuple[Pending, ...]:
    """What becomes of uncommitted changes where HEAD moves on to the commit `target`.

    Katas and the ledger are merged like committed ones. Raises CannotUpdate, naming the files, for
    any other that stands in the way, and where a merge has conflicts.
    """
    changed = _changes(git, "HEAD", target)
    _nothing_untracked(git, changed)
    found, refused = [], []
    for path, state in _uncommitted(git).items():
        if path in changed:
            pending = _pending(git, path, state, target)
            (found if pending else refused).append(pending or path)
    _refuse(refused)
    return tuple(found)


def nothing_in_the_way(git: Git, base: str, theirs: str) -> None:
    """Raises CannotUpdate unless a merge that ends in conflicts can be begun, and be taken back."""
    changed = _changes(git, base, theirs)
    _nothing_untracked(git, _changes(git, "HEAD", theirs))
    states = _uncommitted(git)
    _refuse([path for path, state in states.items() if path in changed or state[0] != " "])


def _changes(git: Git, old: str, new: str) -> dict[str, str]:
    """What differs between two commits: by path "A", "M" or "D"."""
    fields = git.paths("diff", "--name-status", "-z", "--no-renames", old, new)
    return dict(zip(fields[1::2], fields[::2], strict=True))


def _uncommitted(git: Git) -> dict[str, str]:
    """Tracked files that differ from HEAD: by path git's two letters, staged and in the file."""
    lines = git.paths("status", "--porcelain", "-z", "--no-renames", "--untracked-files=no")
    return {line[3:]: line[:2] for line in lines}


def _nothing_untracked(git: Git, changed: dict[str, str]) -> None:
    """Git itself would overwrite a file that it was told to ignore."""
    new = [path for path, letter in changed.items() if letter == "A"]
    if there := [path for path in new if os.path.lexists(git.folder / path)]:
        raise CannotUpdate(
            "nothing was changed: the update brings files that you have made too\n"
            + _listed(there)
            + f"\ncommit them, or move them away (mv {there[0]} {there[0]}.mine), and update again"
        )


def _refuse(paths: Sequence[str]) -> None:
    if paths:
        raise CannotUpdate(
            "nothing was changed: changes of yours are not committed, and the update needs these "
            "files\n" + _listed(paths) + "\ncommit them (kata commit, git commit) or put them away "
            "(git stash), and update again"
        )


def _listed(paths: Sequence[str]) -> str:
    return "\n".join(f"  {path}" for path in paths)


def _pending(git: Git, path: str, state: str, target: str) -> Pending | None:
    """The change carried over; None where that is not possible."""
    base, theirs = git.content(f"HEAD:{path}"), git.content(f"{target}:{path}")
    file = git.folder / path
    if file_merge.kind(path) is MergeKind.OTHER or state not in (" M", "M ", " D"):
        return None
    if base is None or theirs is None or file.is_symlink():
        return None
    if state == " D":
        return Pending(path, None, None, staged=False)
    ours = file.read_bytes()
    merged = file_merge.merge(git, path, base, ours, theirs)
    if merged.conflicts:
        return None
    return Pending(path, ours, merged.data, staged=state == "M ")


def move(git: Git, target: str, pending: Sequence[Pending]) -> None:
    """Move HEAD, index and files on to `target`, a descendant, uncommitted changes included.

    Katas are saved among the attempts first. However it ends, either all is as before or all has
    moved on. Raises GitError where git refuses.
    """
    now = datetime.datetime.now()
    for one in pending:
        kata = kata_at(git.folder, git.folder / one.path)
        if kata and one.before is not None:
            repository.keep(kata, now)
    with uninterrupted():
        try:
            if pending:
                git("checkout", "--quiet", "HEAD", "--", *(one.path for one in pending))
            how = ("--quiet", "--ff-only", "--no-overwrite-ignore")
            git("-c", "merge.autoStash=false", "merge", *how, target)
        finally:
            moved = git("rev-parse", "HEAD").strip() == target
            for one in pending:
                _write(git, one, one.after if moved else one.before)


def _write(git: Git, one: Pending, content: bytes | None) -> None:
    file = git.folder / one.path
    if content is None:
        file.unlink(missing_ok=True)
        return
    file.write_bytes(content)
    if one.staged:
        git("add", "--", one.path)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Neither Ctrl-C nor the end of the terminal stops this process, or git, halfway in here."""
    here = threading.current_thread() is threading.main_thread()
    names = ("SIGINT", "SIGTERM", "SIGHUP") if here else ()
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


MESSAGE = "kata update: "

#: What the learner's own settings do not decide: no hook runs for what is tried aside, no folder is
#: guessed to have moved, nothing uncommitted is put away, and line ends are git's affair.
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
#: Katas resemble each other: only what has hardly changed was renamed.
_RENAMES = "find-renames=75%"


@dataclass(frozen=True, slots=True)
class Conflict:
    """A file that both sides changed. `lines` are those of the markers, 1-based."""

    path: str
    lines: tuple[int, ...]
    what: str


@dataclass(slots=True)
class Merge:
    """What became of a merge beyond what git says of it."""

    conflicts: list[Conflict] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)  # katas that upstream removed
    gone: list[str] = field(default_factory=list)  # katas that the learner removed


@contextmanager
def aside(git: Git) -> Iterator[Git]:
    """A work tree of HEAD in a folder of its own, for as long as the block runs."""
    with tempfile.TemporaryDirectory(prefix="kata-update-") as folder:
        place = Path(folder, "tree")
        try:
            git(*_SETTINGS, "worktree", "add", "--quiet", "--detach", str(place), "HEAD")
            yield Git(place)
        finally:
            git.run("worktree", "remove", "--force", str(place))


def commit(git: Git) -> str:
    """Commit the merge under way in a work tree made by `aside`. Returns the commit's id."""
    git(*_SETTINGS, "commit", "--quiet", "--no-verify", "--no-edit")
    return git("rev-parse", "HEAD").strip()


def merge(git: Git, theirs: str, base: str, message: str) -> Merge:
    """Merge the commit `theirs` into HEAD's, without committing; conflicts are left in the files.

    Raises GitError where git refuses to begin. A failure midway takes the merge back.
    """
    how = ("--no-commit", "--no-ff", "--quiet", "-X", _RENAMES, "-m", message)
    ran = git.run(*_SETTINGS, "merge", *how, theirs)
    if git.run("rev-parse", "--verify", "--quiet", "MERGE_HEAD").returncode:
        raise GitError(f"git merge: {(ran.stderr or ran.stdout).strip()}")
    try:
        return _resolved(git, theirs, base)
    except BaseException:
        git.run("merge", "--abort")
        raise


def abort(git: Git) -> None:
    """Take back a merge that `merge` has left under way. Raises CannotUpdate if there is none."""
    if git.run("rev-parse", "--verify", "--quiet", "MERGE_HEAD").returncode:
        raise CannotUpdate("no update is under way: there is nothing to take back")
    words = Path(git.folder, git("rev-parse", "--git-path", "MERGE_MSG").strip())
    if not (words.exists() and words.read_text(encoding="utf-8").startswith(MESSAGE)):
        raise CannotUpdate("the merge under way is not by kata update: git merge --abort")
    git("merge", "--abort")


def _resolved(git: Git, theirs: str, base: str) -> Merge:
    found = Merge()
    unmerged = _unmerged(git)
    for path in _changed_by_both(git, theirs, base):
        if path not in unmerged:
            sides = [git.content(f"{side}:{path}") for side in (base, "HEAD", theirs)]
            _settle(git, path, sides, found)
    for path, blobs in unmerged.items():
        sides = [git.content(blobs[stage]) if stage in blobs else None for stage in (1, 2, 3)]
        _settle(git, path, sides, found)
    return found


def _changed_by_both(git: Git, theirs: str, base: str) -> list[str]:
    """Kata files that git may have merged by itself, without an eye for regions."""
    sides = [
        git.paths(
            "diff", "--name-only", "-z", "--no-renames", "--diff-filter=M", base, side, "--", KATAS
        )
        for side in ("HEAD", theirs)
    ]
    both = set(sides[0]).intersection(sides[1])
    return sorted(path for path in both if file_merge.kind(path) is MergeKind.KATA)


def _unmerged(git: Git) -> dict[str, dict[int, str]]:
    """What git could not merge: for each path the blobs of base (1), ours (2) and theirs (3)."""
    found: dict[str, dict[int, str]] = {}
    for line in git.paths("ls-files", "--unmerged", "-z"):
        about, path = line.split("\t")
        _, blob, stage = about.split(" ")
        found.setdefault(path, {})[int(stage)] = blob
    return found


def _settle(git: Git, path: str, sides: list[bytes | None], found: Merge) -> None:
    """Resolve one path, or note its conflict."""
    base, ours, theirs = sides
    kind = file_merge.kind(path)
    if ours is None and theirs is None:  # both have moved it elsewhere
        git("rm", "--quiet", "--cached", "--", path)
        return
    if theirs is None or ours is None:
        _settle_removed(git, path, ours is not None, base is not None, found)
        return
    if kind is MergeKind.KATA and base is None and file_merge.same_outside(*_texts(ours, theirs)):
        base = theirs  # the learner's copy of what upstream now brings
    if base is None and kind is not MergeKind.LEDGER:
        found.conflicts.append(_conflict(git, path, "both sides added it"))
        return
    try:
        merged = file_merge.merge(git, path, base or b"", ours, theirs)
    except GitError:  # no text
        what = f"no text: git checkout --ours {path}, or --theirs"
        found.conflicts.append(Conflict(path, (), what))
        return
    Path(git.folder, path).write_bytes(merged.data)
    if merged.conflicts:
        found.conflicts.append(_conflict(git, path, "both sides changed these lines"))
    else:
        _add(git, path)


def _add(git: Git, path: str) -> None:
    git(*_SETTINGS, "add", "--force", "--", path)


def _texts(*sides: bytes) -> list[str]:
    return [side.decode("utf-8", "surrogateescape").replace("\r\n", "\n") for side in sides]


def _settle_removed(git: Git, path: str, is_ours: bool, known: bool, found: Merge) -> None:
    """One side changed what the other removed: a kata stays as the learner has it, or has not."""
    kata = kata_at(git.folder, git.folder / path)
    if kata is None or not known:
        who = "upstream removed it, you changed it" if is_ours else "you removed it, upstream not"
        found.conflicts.append(Conflict(path, (), f"{who}: git add {path}, or git rm {path}"))
    elif is_ours:
        _add(git, path)
        _keep_gradable(git, kata)
        found.kept.append(kata.id)
    else:
        git("rm", "--quiet", "--force", "--", path)
        found.gone.append(kata.id)


def _keep_gradable(git: Git, kata: Kata) -> None:
    """A kata is graded against its solution and key: upstream's removal of them goes unheard."""
    for file in (kata.solution, kata.key_path):
        name = file.relative_to(git.folder).as_posix()
        if not file.exists() and git.content(f"HEAD:{name}") is not None:
            git("checkout", "HEAD", "--", name)


def _conflict(git: Git, path: str, what: str) -> Conflict:
    data = Path(git.folder, path).read_bytes().split(b"\n")
    lines = [number for number, line in enumerate(data, 1) if line.startswith(b"<<<<<<<")]
    return Conflict(path, tuple(lines), what)
