"""The contract that every exercise is held to: how a breach is told, which share is graded.

CI grades each kata once: one share on the oldest jax, the other on the newest, and of both what has
its turn. `.ci/full` grades the whole on both.
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
from grader.verdict import Case, Check
from pallascope.model import Reference
from tests.support.turns import Turn, this_turn

#: CI grades one in so many known mistakes of a kata that has not changed lately, and so on.
TURNS = 4
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
    OLDEST = "oldest"  # CI's on the oldest jax: every second hidden case, and mistakes that we tell
    NEWEST = "newest"  # CI's on the newest: the other cases, and mistakes that jax tells

    def cases(self, cases: Sequence[Case]) -> Sequence[Case]:
        """Those of a solution's hidden cases that are graded."""
        return {Share.WHOLE: cases, Share.OLDEST: cases[::2], Share.NEWEST: cases[1::2]}[self]

    def katas(self, every: Sequence[Kata]) -> Sequence[Kata]:
        """Those of which one end of jax is enough: what they show is seen again in verdicts."""
        return {Share.WHOLE: every, Share.OLDEST: every[::2], Share.NEWEST: every[1::2]}[self]

    def stubs(self, every: Sequence[Kata]) -> Sequence[Kata]:
        """The katas whose stubs are graded."""
        return () if self is Share.NEWEST else every

    def tells(self, mistake: Mistake) -> bool:
        """Whether the known mistake is graded."""
        return self is Share.WHOLE or (mistake.caught in TOLD_BY_JAX) is (self is Share.NEWEST)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a session grades of the contract.

    `every_case`: each mistake on all hidden cases, not only up to the one that shows it; and par
    computed anew for each case of a solution. With a `turn`, what has not changed lately is graded
    in part.
    """

    share: Share
    seeds: tuple[int, ...]
    every_case: bool
    turn: Turn | None = None

    @classmethod
    def of(cls, config: pytest.Config) -> Plan:
        seeds = str(config.getoption("--seeds")).split(",")
        share = Share(config.getoption("--share"))
        asked = config.getoption("keyword") or config.getoption("--every-case")
        return cls(
            share,
            tuple(map(int, seeds)),
            bool(config.getoption("--every-case")),
            None if asked or share is Share.WHOLE else this_turn(),
        )

    def cases(self, kata: Kata, cases: Sequence[Case]) -> Sequence[Case]:
        """Those of a solution's hidden cases that are graded.

        In turns, the first of those that are run, on the oldest jax; and of every fourth kata,
        another one on the newest, where XLA takes three times as long to compile what the
        interpreter runs, and those of production size, which take the TPU's compiler long, on one
        of the two.
        """
        graded = self.share.cases(cases)
        if (turn := self._turn_of(kata)) is None:
            return graded
        its_turn = turn.has(zlib.crc32(kata.id.encode()), TURNS)
        first, *others = [case for case in cases if not case.production] or [None]
        if self.share is Share.NEWEST:
            first = others[turn.number // TURNS % len(others)] if its_turn and others else None
        large = [case for case in graded if case.production and its_turn]
        return [case for case in cases if case is first or case in large]

    def some(self, cases: Sequence[Case], *, shows_cost: bool) -> Sequence[Case]:
        """Of a kata's hidden cases one; with `shows_cost`, one that is run and the largest.

        The largest is that of production size. Without one of that size, any may be the one that
        shows what a kernel costs: then it is all of them.
        """
        if self.turn is None:
            return cases
        if not shows_cost:
            return [cases[self.turn.number % len(cases)]]
        run = [case for case in cases if not case.production]
        if len(run) == len(cases):
            return cases
        one = run[self.turn.number % len(run)] if run else None
        return [case for case in cases if case is one or case.production]

    def katas(self, every: Sequence[Kata]) -> list[Kata]:
        """Those that are looked at where it is enough to look once after a change."""
        placed = ((self._turn_of(kata), place, kata) for place, kata in enumerate(every))
        return [kata for turn, place, kata in placed if turn is None or turn.has(place, TURNS)]

    def mistakes(self, every: Sequence[Kata]) -> list[tuple[Kata, Mistake]]:
        """The known mistakes that are graded."""
        found = []
        for number, kata in enumerate(every):
            turn, told = self._turn_of(kata), filter(self.share.tells, kata.key.mistakes)
            for place, mistake in enumerate(told, start=number):
                if turn is None or turn.has(place, TURNS):
                    found.append((kata, mistake))
        return found

    def in_order(self, kata: Kata, cases: Sequence[Case]) -> Sequence[Case]:
        """All of them, in the order in which a mistake is tried on them.

        What jax tells, it tells of most cases: first come those of which the solution's results
        are known already. What we tell shows soonest in the order in which they were drawn.
        """
        first = self.cases(kata, cases) if self.share is Share.NEWEST else ()
        return (*first, *(case for case in cases if case not in first))

    def _turn_of(self, kata: Kata) -> Turn | None:
        """The turn that a kata waits for, if it does."""
        return None if self.turn and kata.id in self.turn.changed else self.turn


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
