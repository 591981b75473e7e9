"""One run of `kata grade`: a set or a shard of samples, a store, an executor.

If several runs share a file of samples, a hash of each sample's text chooses its run, so equal
samples go to the same run.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from grader.api.examiner import DEFAULT_LIMIT
from grader.batch.executor import ExecutorFactory, Outcome, Setup, SubmissionJob
from grader.batch.samples import Complaint, Sample
from grader.batch.scores import Scored, Scores, by_track
from grader.batch.store import Store, Terms, key_of
from grader.exercise.cases import random_seed
from grader.exercise.catalog import Kata
from grader.verdict import State
from pallascope.model import Check
from pallascope.tools.versions import versions


@dataclass(frozen=True, slots=True)
class Shard:
    """Part `number` of `count` parts of a file of samples, counted from 1."""

    number: int
    count: int

    @classmethod
    def of(cls, text: str) -> Self:
        """Parse a text such as "2/4". Raises ValueError."""
        found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
        if not found:
            raise ValueError(
                f"{text!r} isn't a shard: give its number and the number of shards, such as 2/4"
            )
        number, count = map(int, found.groups())
        if not count:
            raise ValueError(f"{text!r} isn't a shard: there must be at least one shard")
        if not 1 <= number <= count:
            raise ValueError(
                f"{text!r} isn't a shard: with {count}, they are 1/{count} to {count}/{count}"
            )
        return cls(number, count)

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def __contains__(self, found: Sample | Complaint) -> bool:
        return shard_of(found, self.count) == self


def shard_of(found: Sample | Complaint, count: int) -> Shard:
    """The shard that judges a sample, on any version. The first has lines that can't be judged."""
    if isinstance(found, Complaint) or found.source is None:
        return Shard(1, count)
    text = f"{found.kata}\n{found.source}".encode("utf-8", "surrogatepass")
    return Shard(int(hashlib.sha256(text).hexdigest(), 16) % count + 1, count)


@dataclass(frozen=True, slots=True)
class How:
    """How samples are judged. `seed` defaults to the store's; `ks` are the values of k for pass@k;
    `limit` is the time in seconds for all hidden cases of a sample.

    `versions` are the judging versions, by default the installed ones. `shard` ("2/4") is the part
    of the samples to judge.
    """

    chip: str
    isolation: str
    seed: int | None = None
    ks: tuple[int, ...] = (1,)
    limit: float = DEFAULT_LIMIT
    versions: Mapping[str, str | None] | None = None
    shard: str = ""


class Batch:
    """Samples, and the verdicts on them, in one store."""

    def __init__(
        self,
        root: Path,
        every: Mapping[str, Kata],
        samples: Sequence[Sample],
        store: Store,
        how: How,
        hire: ExecutorFactory,
    ) -> None:
        self._every, self._samples, self._store, self._how = every, samples, store, how
        self._hire = hire
        given = random_seed() if how.seed is None else how.seed
        own = store.seed(given)
        self.seed = own if how.seed is None else how.seed
        self._setup = Setup(str(root), (how.chip,), how.isolation, how.limit)
        digests = {id: every[id].answer_digest() for id in {one.kata for one in samples}}
        self._versions = dict(versions() if how.versions is None else how.versions)
        store.judge_by(Terms(self.seed, self._setup.chips, self._versions, how.shard))
        self._keys = {
            one.line: self._key(one.kata, one.source, digests[one.kata])
            for one in samples
            if one.source is not None
        }
        self.failed: dict[str, str] = {}  # by key: why there is no verdict
        self._accidents: dict[str, dict[str, Any]] = {}  # by key: verdicts that are not stored

    def _key(self, kata: str, source: str, answer: str) -> str:
        return key_of(kata, source, answer, self.seed, self._setup.chips, self._versions)

    def waiting(self) -> list[SubmissionJob]:
        """The different submissions that have no verdict in the store."""
        jobs = {
            self._keys[one.line]: SubmissionJob(
                self._keys[one.line], one.kata, one.source, self.seed
            )
            for one in self._samples
            if one.source is not None and self._keys[one.line] not in self._store
        }
        return list(jobs.values())

    def judge(self, jobs: Sequence[SubmissionJob]) -> Generator[Outcome, None, None]:
        """Judge these jobs. Each verdict is stored before it is yielded. Raises ExecutorError.

        A verdict decided by an accident counts in this run only; the next run judges again.
        """
        with self._hire(self._setup) as executor:
            for outcome in executor.outcomes(jobs):
                if outcome.error:
                    self.failed[outcome.key] = outcome.error
                elif outcome.accident:
                    self._accidents[outcome.key] = json.loads(outcome.verdict)
                else:
                    self._store.put(outcome.key, outcome.kata, outcome.verdict)
                yield outcome

    def missing(self) -> list[Sample]:
        """The samples that could be judged but have no verdict in the store."""
        asked = [one for one in self._samples if one.source is not None]
        return [one for one in asked if not self._verdict(one)]

    @property
    def known(self) -> int:
        """How many different submissions the store has verdicts on."""
        return sum(key in self._store for key in set(self._keys.values()))

    def rows(self) -> list[dict[str, Any]]:
        """A row for each sample with a verdict, in order."""
        verdicts = ((one, self._verdict(one)) for one in self._samples)
        return [{**one.row, **verdict} for one, verdict in verdicts if verdict]

    def _verdict(self, sample: Sample) -> dict[str, Any] | None:
        if sample.source is not None:
            key = self._keys[sample.line]
            return self._store.get(key) or self._accidents.get(key)
        finding = {"check": Check.RUNS.value, "phrase": sample.why, "message": sample.why}
        return {"state": State.FAILED.value, "stars": 0, "reward": 0.0, "finding": finding}

    def errors(self) -> Iterator[tuple[int, str]]:
        """The lines that could not be graded, and why."""
        for line, key in self._keys.items():
            if key in self.failed:
                yield line, self.failed[key]

    def scores(self, rows: Sequence[dict[str, Any]]) -> list[Scores]:
        scored = [
            Scored(
                row["task_id"],
                row["stars"],
                row.get("speed"),
                row["state"] == State.PASSED.value,
            )
            for row in rows
        ]
        kernels = {id for id in {one.task for one in scored} if self._every[id].key.kernel}
        return by_track(scored, self._how.ks, kernels)
