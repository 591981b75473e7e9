"""A crew on the nodes of a cluster, which come, go and die.

A hand is an actor of the cluster: one worker process, wherever there was a free core. It gets one
submission at a time, and only once it has said that it is there: what a hand is at when its node
dies goes to another, and nothing waits for a node that never comes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from grader.batch.crew import Hopeless
from grader.batch.orders import Job, Outcome
from grader.batch.waiting import Waiting

TRIES = 4  # for one submission; most often the node is to blame
TICK = 5.0  # seconds between two looks at how many cores the cluster has
TELL_SECONDS = 60.0
PATIENCE_SECONDS = 900.0  # for a first node, or another one: machines in a cloud take minutes


class Lost(Exception):
    """The hand is gone for now, with what it was at."""


class Cluster(Protocol):
    """What is asked of a cluster. Calls are made at once and answered later."""

    def cores(self) -> int:
        """How many cores it has now."""
        ...

    def hired(self) -> Any:
        """A new hand, which may have to wait for a core."""
        ...

    def ready(self, hand: Any) -> Hashable:
        """A call answered as soon as the hand is there, also after its node has died."""
        ...

    def grade(self, hand: Any, job: Job) -> Hashable:
        """A call answered with an Outcome."""
        ...

    def done(self, calls: Sequence[Hashable], seconds: float) -> Sequence[Any]:
        """Those of the calls that are answered: at least one, unless the time is over."""
        ...

    def answer(self, call: Any) -> Any:
        """What a call that is done was answered. Raises Lost, Hopeless."""
        ...


class _Hand:
    def __init__(self, actor: Any) -> None:
        self.actor = actor
        self.job: Job | None = None
        self.kata = ""  # of its latest job


class ClusterCrew:
    """So many hands, or with `count` None one for each core that the cluster has or gets."""

    def __init__(
        self, cluster: Cluster, count: int | None = None, tell: Callable[[str], None] = print
    ) -> None:
        self._cluster, self._count, self._tell = cluster, count, tell
        self._hands: list[_Hand] = []
        self._idle: list[_Hand] = []
        self._calls: dict[Hashable, _Hand] = {}
        self._tries = Counter[str]()

    def outcomes(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
        """What comes of each job, in the order in which they are done. Raises Hopeless."""
        waiting, patience = Waiting(jobs), _Patience(self._tell)
        while waiting or any(hand.job for hand in self._hands):
            self._grow(len(waiting))
            self._hand_out(waiting)
            for call in self._cluster.done(list(self._calls), TICK):
                if found := self._taken(call, waiting):
                    yield found
                self._hand_out(waiting)
            patience.wear(any(hand.job for hand in self._hands), len(self._hands))

    def _grow(self, jobs: int) -> None:
        wanted = self._cluster.cores() if self._count is None else self._count
        while len(self._hands) < min(max(wanted, 1), jobs):
            hand = _Hand(self._cluster.hired())
            self._hands.append(hand)
            self._calls[self._cluster.ready(hand.actor)] = hand

    def _hand_out(self, waiting: Waiting) -> None:
        while self._idle and waiting:
            hand = self._idle.pop()
            hand.job = waiting.next_for(hand.kata)
            hand.kata = hand.job.kata
            self._calls[self._cluster.grade(hand.actor, hand.job)] = hand

    def _taken(self, call: Hashable, waiting: Waiting) -> Outcome | None:
        """What a call has brought, if it was about a job that is done with."""
        hand = self._calls.pop(call)
        job, hand.job = hand.job, None
        try:
            found = self._cluster.answer(call)
        except Lost as loss:
            self._calls[self._cluster.ready(hand.actor)] = hand
            return self._again(job, str(loss), waiting) if job else None
        if job is None and found:
            raise Hopeless(found)
        self._idle.append(hand)
        if job is not None and found.hopeless:
            raise Hopeless(found.error)
        return found or None

    def _again(self, job: Job, why: str, waiting: Waiting) -> Outcome | None:
        self._tries[job.key] += 1
        if self._tries[job.key] < TRIES:
            waiting.add(job)
            return None
        return Outcome(job.key, job.kata, error=f"{TRIES} nodes were lost over it ({why})")


class _Patience:
    """With a cluster on which nobody works."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._since = self._told = time.monotonic()

    def wear(self, works: bool, hands: int) -> None:
        """Say so each minute. Raises Hopeless where it has lasted too long."""
        now = time.monotonic()
        if works:
            self._since = self._told = now
        if now - self._since > PATIENCE_SECONDS:
            raise Hopeless(
                f"no node of the cluster had a free core for {PATIENCE_SECONDS / 60:g} minutes"
            )
        if now - self._told > TELL_SECONDS:
            self._told = now
            self._tell(f"waiting for a free core of the cluster, for {hands} workers")
