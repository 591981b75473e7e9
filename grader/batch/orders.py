"""What crosses between the crew and its workers."""

from __future__ import annotations

from dataclasses import dataclass

from grader.api.examiner import LIMIT


@dataclass(frozen=True, slots=True)
class Setup:
    """The first message to a worker: how to grade.

    `root` is the repository's folder, `limit` the seconds that a submission may take in all.
    """

    root: str
    chips: tuple[str, ...]
    isolation: str
    limit: float = LIMIT


@dataclass(frozen=True, slots=True)
class Job:
    """One submission. `key` is the store's name for it."""

    key: str
    kata: str
    source: str
    seed: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a job: the verdict as JSON, or why there is none.

    `accident`: the verdict holds for this run alone, see `Report.accident`. `hopeless`: no other
    submission can be graded here either.
    """

    key: str
    kata: str
    verdict: str = ""
    error: str = ""
    hopeless: bool = False
    accident: bool = False
