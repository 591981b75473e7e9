"""One git commit for each solved kata, and what the last one holds.

What the last commit knows of katas and ledger, and what it lacks.

One commit for one kata: its file and its lines of the ledger, and nothing else.
The commit is prepared in an index of its own, so that whatever else is staged or modified stays
that way. It is made by `git commit`, with the author, the hooks and the signature that the learner
has set up.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from grader.exercise.catalog import KATAS, Kata
from grader.exercise.key_tables import KeyProblem
from grader.record.ledger import (
    LEDGER,
    Ledger,
    Pass,
    parsed_ledger,
    pass_or_none,
)
from grader.record.status import FileState, KataStatus
from grader.tools.git import (
    Git,
    GitError,
    blob_id,
    require_finished,
)
from grader.verdict import MAX_STARS


@dataclass(frozen=True, slots=True)
class LastCommit:
    """The last commit; empty where there is none yet.

    `files` has mode and id of every file under katas/, by path; `text` is the ledger's.
    """

    exists: bool = False
    files: dict[str, tuple[str, str]] = field(default_factory=dict)
    text: str = ""

    @property
    def ledger(self) -> Ledger:
        return parsed_ledger(self.text)

    def blob(self, kata: Kata) -> str:
        """Git's id of the kata's file, "" where the commit has none."""
        return self.files.get(git_path(kata), ("", ""))[1]


def git_path(kata: Kata) -> str:
    """The path of a kata's file, as git names it."""
    return f"{KATAS}/{kata.id}.py"


def last_commit(git: Git) -> LastCommit:
    """The last commit as it is now. Raises git.GitError."""
    if git.run("rev-parse", "--verify", "--quiet", "HEAD").returncode:
        return LastCommit()
    files = {}
    for entry in git("ls-tree", "-r", "-z", "HEAD", "--", KATAS).split("\0"):
        about, _, path = entry.partition("\t")
        if path:
            mode, _, blob = about.split()
            files[path] = (mode, blob)
    text = git("cat-file", "blob", files[LEDGER][1]) if LEDGER in files else ""
    return LastCommit(True, files, text)


def uncommitted(
    git: Git, statuses: Iterable[KataStatus], ledger: Ledger, last: LastCommit
) -> tuple[KataStatus, ...]:
    """The solved katas whose file or passes the last commit lacks. Raises git.GitError."""
    solved = [status for status in statuses if status.file_state is FileState.SOLVED]
    if not solved:
        return ()
    # Git's own ids, since attributes and settings may have it store other line ends.
    blobs = git("hash-object", "--", *(git_path(status.kata) for status in solved)).split()
    committed = set(last.ledger.passes)
    behind = {passed.kata for passed in ledger.passes if passed not in committed}
    return tuple(
        status
        for status, blob in zip(solved, blobs, strict=True)
        if blob != last.blob(status.kata) or status.kata.id in behind
    )


@dataclass(frozen=True, slots=True)
class MadeCommit:
    """A commit: its short id, and the first line of its message."""

    id: str
    subject: str


def require_quiet(git: Git) -> None:
    """Raise GitError while a merge or rebase is under way, or the ledger is in conflict.

    Also while another command holds the index, which is written after the commit is made.
    """
    lock = git.folder / git("rev-parse", "--git-path", "index.lock").strip()
    if lock.exists():
        raise GitError(f"another git command is running: {lock} exists")
    require_finished(git)
    if git("ls-files", "--unmerged", "--", LEDGER):
        raise GitError(f"{LEDGER} has conflicts: fix them, then git add {LEDGER}")


def branch(git: Git) -> str:
    """The branch that commits go to, "" on a detached HEAD."""
    return git.run("symbolic-ref", "--quiet", "--short", "HEAD").stdout.strip()


def commit_kata(git: Git, status: KataStatus) -> MadeCommit | None:
    """Commit a solved kata; None where the last commit has it all.

    Raises GitError with git's own words, such as those of a hook, or where the file was edited
    after `status` was read.
    """
    assert status.file_state is FileState.SOLVED
    path = git_path(status.kata)
    content = status.kata.path.read_bytes()
    if blob_id(content) != status.blob:
        raise GitError(f"{path} has been edited since: pytest -k {status.kata.name}")
    text = (git.folder / LEDGER).read_bytes().decode("utf-8", "replace")
    wanted = {p for p in parsed_ledger(text).passes if p.kata == status.kata.id}
    last = last_commit(git)
    mode, before = last.files.get(path, ("100644", ""))
    blob = git("hash-object", "-w", "--stdin", "--path", path, stdin=content).strip()
    text_after = with_passes(last.text, text, wanted)
    if blob == before and text_after == last.text:
        return None
    message = _message(status, last)
    with tempfile.TemporaryDirectory() as folder:
        own = replace(git, index=Path(folder) / "index")
        own("read-tree", "HEAD" if last.exists else "--empty")
        _stage(own, path, mode, blob)
        _stage(own, LEDGER, "100644", _stored(own, text_after))
        own("commit", "--quiet", "--file=-", stdin=message.encode())
    mode, blob = last_commit(git).files[path]  # as committed: a hook may have had its say
    _stage(git, path, mode, blob)
    staged = git.run("cat-file", "blob", f":./{LEDGER}").stdout
    _stage(git, LEDGER, "100644", _stored(git, with_passes(staged, text, wanted)))
    return MadeCommit(git("rev-parse", "--short", "HEAD").strip(), message.partition("\n")[0])


def _stored(git: Git, text: str) -> str:
    return git("hash-object", "-w", "--stdin", stdin=text.encode()).strip()


def _stage(git: Git, path: str, mode: str, blob: str) -> None:
    git("update-index", "--add", "--cacheinfo", f"{mode},{blob},{path}")


def with_passes(held: str, work: str, wanted: Collection[Pass]) -> str:
    """The ledger text `held`, with those lines of the text `work` that record `wanted`.

    They are placed as in `work`, so that nothing is left to commit in the end; where `work` no
    longer holds all lines of `held` in their order, they are appended.
    """
    lines = [line.removesuffix("\r") for line in work.split("\n")]
    kept = held.removesuffix("\n").split("\n")
    if not held:
        kept = [line for line in lines if line.startswith("#")][: _heading(lines)]
    missing = set(wanted) - set(parsed_ledger(held).passes)
    rest, merged, new = list(kept), [], []
    for line in lines:
        if rest and rest[0].removesuffix("\r") == line:
            merged.append(rest.pop(0))
        elif (recorded := pass_or_none(line)) in missing:
            missing.discard(recorded)
            merged.append(line)
            new.append(line)
    return "".join(f"{line}\n" for line in (kept + new if rest else merged))


def _heading(lines: list[str]) -> int:
    """How many comments a ledger begins with."""
    return next((n for n, line in enumerate(lines) if not line.startswith("#")), len(lines))


def _message(status: KataStatus, last: LastCommit) -> str:
    """Solve, or improve (more stars than what is committed), or rework (not more)."""
    assert status.last_pass
    kata, stars = status.kata, "★" * status.stars + "☆" * (MAX_STARS - status.stars)
    try:
        title = kata.key.title
    except KeyProblem:
        title = kata.name
    before = last.ledger.best(kata.id, last.blob(kata))
    verb = "Solve" if not before else "Improve" if before.stars < status.stars else "Rework"
    judges = ", ".join(
        f"{name} {version}" for name, version in status.last_pass.versions if version != "-"
    )
    return (
        f"{verb} {kata.name}: {title} ({stars})\n\n"
        f"Track {kata.track}, kata {kata.number}. Passed on {status.last_pass.date}.\n{judges}\n"
    )
