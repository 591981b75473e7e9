"""The contract of every exercise: the message of a breach, and the share that is graded.

CI grades the whole on the oldest jax, and a share on the newest. `.ci/full` grades the whole on
both.
"""

from __future__ import annotations

import enum
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from grader.exercise.answer_key import Mistake
from grader.exercise.catalog import Kata
from grader.sandbox.client import L, WorkerClient
from grader.sandbox.launch_client import LaunchClient
from grader.sandbox.request_queue import SECONDS
from grader.verdict import Case
from pallascope.model import Check, Reference

#: Told in words of jax, or of what it accepts: this may change with its version.
TOLD_BY_JAX = (Check.RUNS, Check.CONTRACT, Check.BLOCKS, Check.LOWERS, Check.COMPILES)


def demand(holds: object, file: Path, wrong: str, remedy: str) -> None:
    """Unless it `holds`, fail with a sentence on the file and its fault, and one on the remedy."""
    __tracebackhide__ = True
    if not holds:
        name = "/".join(file.parts[-3:])
        pytest.fail(f"{name}: {wrong.rstrip('.')}.\n{remedy}.", pytrace=False)


class Share(enum.Enum):
    """The part of the contract that a session grades."""

    WHOLE = "whole"
    NEWEST = (
        "newest"  # CI's on the newest jax: a case of each kata, and the mistakes that jax words
    )

    def cases(self, cases: Sequence[Case]) -> Sequence[Case]:
        """The hidden cases of a solution that are graded.

        On the newest jax, where XLA compiles three times as long: the second that is run.
        """
        run = [case for case in cases if not case.production]
        return cases if self is Share.WHOLE else (run or cases)[:2][-1:]

    def katas(self, every: Sequence[Kata]) -> Sequence[Kata]:
        """The katas whose launches are compared after serialization."""
        return every if self is Share.WHOLE else every[1::2]

    def stubs(self, every: Sequence[Kata]) -> Sequence[Kata]:
        """The katas whose stubs are graded."""
        return () if self is Share.NEWEST else every

    def mistakes(self, every: Sequence[Kata]) -> list[tuple[Kata, Mistake]]:
        """The known mistakes that are graded."""
        whole = self is Share.WHOLE
        return [
            (kata, mistake)
            for kata in every
            for mistake in kata.key.mistakes
            if whole or mistake.caught in TOLD_BY_JAX
        ]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a session grades of the contract.

    `every_case`: each mistake on all hidden cases, not only up to the one that shows it; par
    computed again for each case of a solution; variants on all hidden cases.
    """

    share: Share
    seeds: tuple[int, ...]
    every_case: bool

    @classmethod
    def of(cls, config: pytest.Config) -> Plan:
        seeds = str(config.getoption("--seeds")).split(",")
        share = Share(config.getoption("--share"))
        return cls(share, tuple(map(int, seeds)), bool(config.getoption("--every-case")))

    def cases(self, cases: Sequence[Case]) -> Sequence[Case]:
        """The hidden cases of a solution that are graded."""
        return self.share.cases(cases)

    def some(self, kata: Kata, cases: Sequence[Case], *, shows_cost: bool) -> Sequence[Case]:
        """The hidden cases on which a variant is graded: one, which its kata's id selects.

        With `shows_cost`, also the case of production size. Without a case of that size, all cases,
        because each may show the cost of a kernel.
        """
        run = [case for case in cases if not case.production]
        if self.every_case or (shows_cost and len(run) == len(cases)):
            return cases
        among = run if shows_cost and run else cases
        one = among[zlib.crc32(kata.id.encode()) % len(among)]
        return [case for case in cases if case is one or (shows_cost and case.production)]

    def in_order(self, cases: Sequence[Case]) -> Sequence[Case]:
        """All cases, in the order in which a mistake is tried on them.

        On the newest jax, cases with known results of the solution come first, because jax reports
        a mistake on most cases. Otherwise our own checks find it soonest in the drawn order.
        """
        first = self.cases(cases) if self.share is Share.NEWEST else ()
        return (*first, *(case for case in cases if case not in first))


class OwnPar(WorkerClient):
    """Uses the learner's launch as par. For a solution, both are the same launch."""

    def solution(
        self,
        kata: Kata,
        case: Case,
        reference: Reference,
        events: int = 0,
        kind: type[L] = LaunchClient,
    ) -> L:
        return self.learner(kata, case, reference, SECONDS, events, kind)
