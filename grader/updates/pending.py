"""What the learner has not committed, carried over an update or standing in its way."""

from __future__ import annotations

import datetime
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from grader.exercise import repository
from grader.exercise.catalog import kata_at
from grader.tools.git import Git
from grader.updates import contents
from grader.updates.contents import Kind
from grader.updates.source import CannotUpdate


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
    if contents.kind(path) is Kind.OTHER or state not in (" M", "M ", " D"):
        return None
    if base is None or theirs is None or file.is_symlink():
        return None
    if state == " D":
        return Pending(path, None, None, staged=False)
    ours = file.read_bytes()
    merged = contents.merge(git, path, base, ours, theirs)
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
