"""An executor on the nodes of a cluster, and the upload to them.

What is sent to the nodes of a cluster: the grader that runs here, and the answers.

A crew on the nodes of a cluster, which come, go and die.
A hand is an actor of the cluster: one worker process, wherever there was a free core. It gets one
submission at a time, and only once it has said that it is there: what a hand is at when its node
dies goes to another, and nothing waits for a node that never comes.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from grader.batch.executor import ExecutorError, JobQueue, Outcome, SubmissionJob
from grader.exercise.catalog import SOLUTIONS
from pallascope.tools.versions import PACKAGE, versions

LEFT_OUT = ("__pycache__", "*.pyc", ".*")
OURS = ("grader", "pallascope")
COUNT = "files.txt"  # how many files there are beside it
SECONDS, PAUSE = 20.0, 0.2


def pack(root: Path, folder: Path) -> None:
    """Copy to `folder` what a node needs of the repository at `root`, some 4 MB.

    So a node grades with the driver's code against the driver's answers, whatever version of this
    package it has installed, or none. It has to have the packages that this one depends on.
    """
    installed = Path(__file__).resolve().parents[2]
    sources = [*(installed / name for name in OURS), root / SOLUTIONS]
    for source in sources:
        shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns(*LEFT_OUT))
    if version := versions()[PACKAGE]:
        told = folder / f"{PACKAGE.replace('-', '_')}-{version}.dist-info" / "METADATA"
        told.parent.mkdir()
        told.write_text(f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: {version}\n")
    (folder / COUNT).write_text(str(_count(folder)))


def unpack(sent: Path, folder: Path) -> None:
    """Make `folder` a copy of what a node was sent. Raises OSError where that isn't whole.

    Ray may write it anew at any moment: where two nodes share a machine, for the other's sake.
    """
    until = time.monotonic() + SECONDS
    while not _copied(sent, folder):
        if time.monotonic() > until:
            raise OSError(f"what was sent to this node is not whole: {sent}")
        time.sleep(PAUSE)


def is_whole(folder: Path) -> bool:
    """Whether all that was packed is there."""
    try:
        return _count(folder) == int((folder / COUNT).read_text())
    except (OSError, ValueError):
        return False


def _copied(sent: Path, folder: Path) -> bool:
    shutil.rmtree(folder, ignore_errors=True)
    try:
        shutil.copytree(sent, folder, ignore=shutil.ignore_patterns(*LEFT_OUT))
    except OSError:  # as shutil.Error is
        return False
    return is_whole(folder)


def _count(folder: Path) -> int:
    """How many files it has, without what Python writes there."""
    return sum(
        name != COUNT
        for place, _, names in os.walk(folder)
        if Path(place).name != "__pycache__"
        for name in names
    )


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

    def grade(self, hand: Any, job: SubmissionJob) -> Hashable:
        """A call answered with an Outcome."""
        ...

    def done(self, calls: Sequence[Hashable], seconds: float) -> Sequence[Any]:
        """Those of the calls that are answered: at least one, unless the time is over."""
        ...

    def answer(self, call: Any) -> Any:
        """What a call that is done was answered. Raises Lost, ExecutorError."""
        ...


class _Hand:
    def __init__(self, actor: Any) -> None:
        self.actor = actor
        self.job: SubmissionJob | None = None
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

    def outcomes(self, jobs: Iterable[SubmissionJob]) -> Iterator[Outcome]:
        """What comes of each job, in the order in which they are done. Raises ExecutorError."""
        waiting, patience = JobQueue(jobs), _Patience(self._tell)
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

    def _hand_out(self, waiting: JobQueue) -> None:
        while self._idle and waiting:
            hand = self._idle.pop()
            hand.job = waiting.next_for(hand.kata)
            hand.kata = hand.job.kata
            self._calls[self._cluster.grade(hand.actor, hand.job)] = hand

    def _taken(self, call: Hashable, waiting: JobQueue) -> Outcome | None:
        """What a call has brought, if it was about a job that is done with."""
        hand = self._calls.pop(call)
        job, hand.job = hand.job, None
        try:
            found = self._cluster.answer(call)
        except Lost as loss:
            self._calls[self._cluster.ready(hand.actor)] = hand
            return self._again(job, str(loss), waiting) if job else None
        if job is None and found:
            raise ExecutorError(found)
        self._idle.append(hand)
        if job is not None and found.fatal:
            raise ExecutorError(found.error)
        return found or None

    def _again(self, job: SubmissionJob, why: str, waiting: JobQueue) -> Outcome | None:
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
        """Say so each minute. Raises ExecutorError where it has lasted too long."""
        now = time.monotonic()
        if works:
            self._since = self._told = now
        if now - self._since > PATIENCE_SECONDS:
            raise ExecutorError(
                f"no node of the cluster had a free core for {PATIENCE_SECONDS / 60:g} minutes"
            )
        if now - self._told > TELL_SECONDS:
            self._told = now
            self._tell(f"waiting for a free core of the cluster, for {hands} workers")
