"""What the last commit knows of katas and ledger, and what it lacks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from grader.exercise.catalog import KATAS, Kata
from grader.record.ledger import LEDGER, Ledger, parsed_ledger
from grader.record.status import FileState, KataStatus
from grader.tools.git import Git


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
    if git.try_("rev-parse", "--verify", "--quiet", "HEAD").returncode:
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
