"""The contract that every exercise is held to: how a breach is told, which share is graded.

CI grades the whole on the oldest jax, and a share on the newest. `.ci/full` grades the whole on
both.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from grader.exercise.answer_key import Mistake
from grader.exercise.catalog import Kata
from grader.sandbox.client import L, WorkerClient
from grader.sandbox.launch_client import LaunchClient
from grader.sandbox.request_queue import SECONDS
from grader.verdict import Case, Check
from pallascope.model import Reference

#: Told in words of jax, or of what it accepts: this may change with its version.
TOLD_BY_JAX = (Check.RUNS, Check.CONTRACT, Check.BLOCKS, Check.LOWERS, Check.COMPILES)


def demand(holds: object, file: Path, wrong: str, remedy: str) -> None:
    """Unless it `holds`, fail with one sentence on which file is wrong in what, and one on what
    to do about it."""
    __tracebackhide__ = True
    if not holds:
        name = "/".join(file.parts[-3:])
        pytest.fail(f"{name}: {wrong}.\n{remedy}.", pytrace=False)


class Share(enum.Enum):
    """What part of the contract a session grades."""

    WHOLE = "whole"
    NEWEST = "newest"  # CI's on the newest jax: every second case, and mistakes that jax tells

    def cases(self, cases: Sequence[Case]) -> Sequence[Case]:
        """Those of a solution's hidden cases that are graded."""
        return cases if self is Share.WHOLE else cases[1::2]

    def katas(self, every: Sequence[Kata]) -> Sequence[Kata]:
        """Those of which one end of jax is enough: what they show is seen again in verdicts."""
        return every if self is Share.WHOLE else every[1::2]

    def stubs(self, every: Sequence[Kata]) -> Sequence[Kata]:
        """The katas whose stubs are graded."""
        return every if self is Share.WHOLE else ()

    def mistakes(self, every: Sequence[Kata]) -> list[tuple[Kata, Mistake]]:
        """The known mistakes that are graded."""
        return [
            (kata, mistake)
            for kata in every
            for mistake in kata.key.mistakes
            if self is Share.WHOLE or mistake.caught in TOLD_BY_JAX
        ]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a session grades of the contract.

    `every_case`: each mistake on all hidden cases, not only up to the one that shows it; and par
    computed anew for each case of a solution.
    """

    share: Share
    seeds: tuple[int, ...]
    every_case: bool

    @classmethod
    def of(cls, config: pytest.Config) -> Plan:
        seeds = str(config.getoption("--seeds")).split(",")
        share, every_case = Share(config.getoption("--share")), config.getoption("--every-case")
        return cls(share, tuple(map(int, seeds)), bool(every_case))

    def some(self, cases: Sequence[Case], *, shows_cost: bool) -> Sequence[Case]:
        """Of a kata's hidden cases the first; with `shows_cost` also the largest.

        The largest is that of production size. Without one of that size, any may be the one that
        shows what a kernel costs: then it is all of them.
        """
        if self.every_case:
            return cases
        if not shows_cost:
            return cases[:1]
        large = [case for case in cases[1:] if case.production]
        return [cases[0], *large] if large else cases

    def in_order(self, cases: Sequence[Case]) -> Sequence[Case]:
        """All of them, in the order in which a mistake is tried on them.

        What jax tells, it tells of most cases: first come those of which the solution's results
        are known already. What we tell shows soonest in the order in which they were drawn.
        """
        first = self.share.cases(cases) if self.share is Share.NEWEST else ()
        return (*first, *(case for case in cases if case not in first))


class OwnPar(WorkerClient):
    """Takes the learner's launch for par: of a solution, that is the same launch."""

    def solution(
        self,
        kata: Kata,
        case: Case,
        reference: Reference,
        events: int = 0,
        kind: type[L] = LaunchClient,
    ) -> L:
        return self.learner(kata, case, reference, SECONDS, events, kind)
