"""Makes one git commit for each solved kata: its file and its lines of the ledger.

A temporary index keeps other staged and modified files out of the commit. `git commit` makes it,
with the learner's author, hooks and signature.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from grader.exercise.catalog import KATAS, Kata
from grader.exercise.key_tables import KeyProblem
from grader.record.ledger import LEDGER, Ledger, Pass, parse_ledger, pass_or_none
from grader.record.status import FileState, KataStatus
from grader.tools.git import Git, GitError, blob_id, require_finished
from grader.verdict import MAX_STARS


@dataclass(frozen=True, slots=True)
class LastCommit:
    """The last commit; empty if there is none yet.

    `files` has mode and id of every file under katas/, by path. `text` is the ledger's text.
    """

    exists: bool = False
    files: dict[str, tuple[str, str]] = field(default_factory=dict)
    text: str = ""

    @property
    def ledger(self) -> Ledger:
        return parse_ledger(self.text)

    def blob(self, kata: Kata) -> str:
        """Git's id of the kata's file, "" if the commit has none."""
        return self.files.get(git_path(kata), ("", ""))[1]


def git_path(kata: Kata) -> str:
    """The path of a kata's file in git."""
    return f"{KATAS}/{kata.id}.py"


def last_commit(git: Git) -> LastCommit:
    """Read the last commit. Raises GitError."""
    if git.run("rev-parse", "--verify", "--quiet", "HEAD").returncode:
        return LastCommit()
    files = {}
    for entry in git("ls-tree", "-r", "-z", "HEAD", "--", KATAS).split("\0"):
        metadata, _, path = entry.partition("\t")
        if path:
            mode, _, blob = metadata.split()
            files[path] = (mode, blob)
    text = git("cat-file", "blob", files[LEDGER][1]) if LEDGER in files else ""
    return LastCommit(True, files, text)


def uncommitted(
    git: Git, statuses: Iterable[KataStatus], ledger: Ledger, commit: LastCommit
) -> tuple[KataStatus, ...]:
    """The solved katas whose file or passes the last commit lacks. Raises GitError."""
    solved = [status for status in statuses if status.file_state is FileState.SOLVED]
    if not solved:
        return ()
    # Attributes and settings may make git store other line ends, so git computes the ids.
    blobs = git("hash-object", "--", *(git_path(status.kata) for status in solved)).split()
    committed = set(commit.ledger.passes)
    ids_with_new_passes = {passed.kata for passed in ledger.passes if passed not in committed}
    return tuple(
        status
        for status, blob in zip(solved, blobs, strict=True)
        if blob != commit.blob(status.kata) or status.kata.id in ids_with_new_passes
    )


@dataclass(frozen=True, slots=True)
class MadeCommit:
    """A new commit: its short id, and the first line of its message."""

    id: str
    subject: str


def require_ready_to_commit(git: Git) -> None:
    """Raise GitError if git is busy: a merge, a rebase, conflicts in the ledger, a locked index."""
    lock = git.folder / git("rev-parse", "--git-path", "index.lock").strip()
    if lock.exists():
        raise GitError(f"another git command is running: {lock} exists")
    require_finished(git)
    if git("ls-files", "--unmerged", "--", LEDGER):
        raise GitError(f"{LEDGER} has conflicts: fix them, then git add {LEDGER}")


def current_branch(git: Git) -> str:
    """The current branch, "" on a detached HEAD."""
    return git.run("symbolic-ref", "--quiet", "--short", "HEAD").stdout.strip()


def commit_kata(git: Git, status: KataStatus) -> MadeCommit | None:
    """Commit a solved kata; None if nothing is left to commit.

    Raises GitError with git's message (which may come from a hook), or if the file was edited after
    `status` was read.
    """
    assert status.file_state is FileState.SOLVED
    path = git_path(status.kata)
    content = status.kata.path.read_bytes()
    if blob_id(content) != status.blob:
        raise GitError(f"{path} has been edited since: pytest -k {status.kata.name}")
    text = (git.folder / LEDGER).read_bytes().decode("utf-8", "replace")
    kata_passes = {p for p in parse_ledger(text).passes if p.kata == status.kata.id}
    last = last_commit(git)
    mode, old_blob = last.files.get(path, ("100644", ""))
    blob = git("hash-object", "-w", "--stdin", "--path", path, stdin=content).strip()
    text_after = with_passes(last.text, text, kata_passes)
    if blob == old_blob and text_after == last.text:
        return None
    message = _message(status, last, is_changed=blob != old_blob)
    with tempfile.TemporaryDirectory() as folder:
        temporary_git = replace(git, index=Path(folder) / "index")
        temporary_git("read-tree", "HEAD" if last.exists else "--empty")
        _stage(temporary_git, path, mode, blob)
        _stage(temporary_git, LEDGER, "100644", _write_blob(temporary_git, text_after))
        temporary_git("commit", "--quiet", "--file=-", stdin=message.encode())
    mode, blob = last_commit(git).files[path]  # a hook may have changed them
    _stage(git, path, mode, blob)
    staged = git.run("cat-file", "blob", f":./{LEDGER}").stdout
    _stage(git, LEDGER, "100644", _write_blob(git, with_passes(staged, text, kata_passes)))
    return MadeCommit(git("rev-parse", "--short", "HEAD").strip(), message.partition("\n")[0])


def _write_blob(git: Git, text: str) -> str:
    return git("hash-object", "-w", "--stdin", stdin=text.encode()).strip()


def _stage(git: Git, path: str, mode: str, blob: str) -> None:
    git("update-index", "--add", "--cacheinfo", f"{mode},{blob},{path}")


def with_passes(committed: str, working: str, added: Collection[Pass]) -> str:
    """The ledger text `committed`, plus the lines of the text `working` that record `added`.

    They are placed as in `working`, so that nothing is left to commit in the end. If `working` no
    longer has all lines of `committed` in their order, they are appended.
    """
    lines = [line.removesuffix("\r") for line in working.split("\n")]
    committed_lines = committed.removesuffix("\n").split("\n")
    if not committed:
        committed_lines = [line for line in lines if line.startswith("#")][: _comment_count(lines)]
    missing = set(added) - set(parse_ledger(committed).passes)
    remaining, merged, new = list(committed_lines), [], []
    for line in lines:
        if remaining and remaining[0].removesuffix("\r") == line:
            merged.append(remaining.pop(0))
        elif (recorded := pass_or_none(line)) in missing:
            missing.discard(recorded)
            merged.append(line)
            new.append(line)
    return "".join(f"{line}\n" for line in (committed_lines + new if remaining else merged))


def _comment_count(lines: list[str]) -> int:
    """The number of comment lines at the start of a ledger."""
    return next((n for n, line in enumerate(lines) if not line.startswith("#")), len(lines))


def _message(status: KataStatus, last: LastCommit, is_changed: bool) -> str:
    """The commit's message: Solve, Improve (more stars than the last commit), Rework, or Review."""
    assert status.last_pass
    kata, stars = status.kata, "★" * status.stars + "☆" * (MAX_STARS - status.stars)
    try:
        title = kata.key.title
    except KeyProblem:
        title = kata.name
    earlier = last.ledger.best(kata.id, last.blob(kata))
    verb = "Solve" if not earlier else "Improve" if earlier.stars < status.stars else "Rework"
    verb = verb if is_changed or not earlier else "Review"
    versions = ", ".join(
        f"{name} {version}" for name, version in status.last_pass.versions if version != "-"
    )
    return (
        f"{verb} {kata.name}: {title} ({stars})\n\n"
        f"Track {kata.track}, kata {kata.number}. Passed on {status.last_pass.date}.\n{versions}\n"
    )
