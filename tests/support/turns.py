"""Whose turn it is at this commit: what CI grades of what is long, where the rest waits.

Another commit grades others, and the same commit the same, in all processes of a session. A kata
that has changed lately does not wait. `.ci/full` grades everything, every night.
"""

from __future__ import annotations

import functools
import zlib
from dataclasses import dataclass
from pathlib import PurePosixPath

from grader.tools.git import Git
from tests.support.repositories import ROOT

#: A kata is graded whole for so many commits after it has changed, merges not counted.
LATELY = 20


@dataclass(frozen=True, slots=True)
class Turn:
    """A number that another commit has another of; and the katas that have changed lately.

    These are ids, such as "1_basics/kata_01_constant_add".
    """

    number: int
    changed: frozenset[str] = frozenset()

    def has(self, place: int, turns: int) -> bool:
        """Whether it is this one's turn, whose place is in a row: every `turns`-th has it."""
        return (place + self.number) % turns == 0


@functools.cache
def this_turn() -> Turn:
    """The turn of the commit that is checked out; where there is no git, always the same."""
    try:
        git = Git(ROOT)
        commit = git.run("rev-parse", "HEAD").stdout.strip()
        names = git.run("log", f"-{LATELY}", "--no-merges", "--format=", "--name-only").stdout
    except OSError:
        return Turn(0)
    return Turn(zlib.crc32(commit.encode()), changed(names.splitlines()))


def changed(names: list[str]) -> frozenset[str]:
    """The katas whose solutions, or keys, are among files of the repository."""
    paths = (PurePosixPath(name) for name in names if name.startswith("solutions/"))
    return frozenset("/".join(path.with_suffix("").parts[1:]) for path in paths)
