"""What the last commit knows of katas and ledger, and what it lacks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from grader.exercise.catalog import KATAS, Kata
from grader.record.ledger import LEDGER, Ledger, parsed
from grader.record.status import Known, Present
from grader.tools.git import Git


@dataclass(frozen=True, slots=True)
class Head:
    """The last commit; with nothing in it where there is none yet.

    `files` has mode and id of what lies under katas/, by path; `text` is the ledger's.
    """

    born: bool = False
    files: dict[str, tuple[str, str]] = field(default_factory=dict)
    text: str = ""

    @property
    def ledger(self) -> Ledger:
        return parsed(self.text)

    def blob(self, kata: Kata) -> str:
        """Git's id of the kata's file, "" where the commit has none."""
        return self.files.get(place(kata), ("", ""))[1]


def place(kata: Kata) -> str:
    """The path of a kata's file, as git is told of it."""
    return f"{KATAS}/{kata.id}.py"


def head(git: Git) -> Head:
    """The last commit as it is now. Raises git.GitError."""
    if git.try_("rev-parse", "--verify", "--quiet", "HEAD").returncode:
        return Head()
    files = {}
    for entry in git("ls-tree", "-r", "-z", "HEAD", "--", KATAS).split("\0"):
        about, _, path = entry.partition("\t")
        if path:
            mode, _, blob = about.split()
            files[path] = (mode, blob)
    text = git("cat-file", "blob", files[LEDGER][1]) if LEDGER in files else ""
    return Head(True, files, text)


def uncommitted(
    git: Git, found: Iterable[Present], ledger: Ledger, last: Head
) -> tuple[Present, ...]:
    """The solved katas of whose file or passes the last commit knows less. Raises git.GitError."""
    solved = [one for one in found if one.known is Known.SOLVED]
    if not solved:
        return ()
    # Git's own ids, since attributes and settings may have it store other line ends.
    blobs = git("hash-object", "--", *(place(one.kata) for one in solved)).split()
    told = set(last.ledger.passes)
    behind = {one.kata for one in ledger.passes if one not in told}
    return tuple(
        one
        for one, blob in zip(solved, blobs, strict=True)
        if blob != last.blob(one.kata) or one.kata.id in behind
    )
