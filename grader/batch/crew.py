"""Who judges submissions: what a batch asks of a crew, be it of local processes or of others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from grader.batch.orders import Job, Outcome, Setup

TRIES = 2  # for one submission, where the worker itself dies


class Hopeless(RuntimeError):
    """Nothing can be graded here: says why."""


class Crew(Protocol):
    """Workers that grade one submission each at a time."""

    def outcomes(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
        """What comes of each job, once, in the order in which they are done.

        A job whose worker dies is tried `TRIES` times in all. Raises Hopeless.
        """
        ...


#: Starts a crew, which ends with the `with`, however that is left.
Hire = Callable[[Setup], AbstractContextManager[Crew]]
