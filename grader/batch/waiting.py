"""Jobs that nobody has begun."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from grader.batch.orders import Job


class Waiting:
    """Jobs by kata: a worker stays with one as long as it can, since it keeps that one's par."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._by_kata: dict[str, deque[Job]] = {}
        for job in jobs:
            self.add(job)

    def __len__(self) -> int:
        return sum(map(len, self._by_kata.values()))

    def add(self, job: Job) -> None:
        self._by_kata.setdefault(job.kata, deque()).append(job)

    def next_for(self, kata: str) -> Job:
        """The job that a worker gets whose latest kata is this one. Raises ValueError if none."""
        chosen = kata if kata in self._by_kata else max(self._by_kata, key=self._left)
        job = self._by_kata[chosen].popleft()
        if not self._by_kata[chosen]:
            del self._by_kata[chosen]
        return job

    def _left(self, kata: str) -> int:
        return len(self._by_kata[kata])
