"""An executor that gives verdicts at once, and starts no process."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from grader.batch.executor import Outcome, Setup, SubmissionJob
from grader.commands import grade


class Judges:
    """Gives each job the verdict of a function."""

    def __init__(self, verdict: Callable[[SubmissionJob], dict[str, Any]]) -> None:
        self._verdict = verdict

    def outcomes(self, jobs: Iterable[SubmissionJob]) -> Iterator[Outcome]:
        for job in jobs:
            yield Outcome(job.key, job.kata, json.dumps(self._verdict(job)))


def judging(
    monkeypatch: pytest.MonkeyPatch, verdict: Callable[[SubmissionJob], dict[str, Any]]
) -> None:
    """Let this function judge the jobs of every command."""

    def hire(_setup: Setup) -> contextlib.nullcontext[Judges]:
        return contextlib.nullcontext(Judges(verdict))

    monkeypatch.setattr(grade, "hire_executor", lambda _options: hire)
