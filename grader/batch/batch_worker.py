"""A worker process of `kata grade`: one submission's result line, a second try after an accident.

python -m grader.batch.batch_worker
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from grader.api import Examiner, Report
from grader.batch.executor import Outcome, Setup, SubmissionJob
from grader.sandbox.isolation.confine import NotIsolated
from grader.sandbox.launcher import SandboxError
from pallascope.tools import codec
from pallascope.tools.child_process import ConnectionClosed, ParentConnection
from pallascope.tools.text import printable


def verdict_of(report: Report) -> dict[str, Any]:
    """A report as a flat JSON object, which is added to a sample's row."""
    finding = report.finding
    return {
        "state": report.state.value,
        "stars": report.stars,
        "reward": round(report.reward(), 6),
        "finding": finding
        and {"check": finding.check.value, "phrase": finding.phrase, "message": finding.message},
        "not_judged": str(report.not_judged) if report.not_judged else None,
        "cost": codec.to_builtins(report.cost),
        "speed": report.speed and round(report.speed, 6),
        "seed": report.seed,
        "chips": list(report.conditions.chips),
        "isolation": report.conditions.isolation,
        "versions": dict(report.versions),
        "blob": report.blob,
        "seconds": report.seconds,
        "accident": report.accident,
    }


def outcome_of(examiner: Examiner, job: SubmissionJob) -> Outcome:
    """Grade one submission, and once more if an accident decided the verdict.

    If the repository or the grader is at fault, the outcome has the error instead of a verdict.
    """
    try:
        report = examiner.grade(job.kata, job.source, job.seed)
        if report.accident:
            examiner.close()
            report = examiner.grade(job.kata, job.source, job.seed)
    except SandboxError as error:
        return Outcome(job.key, job.kata, error=str(error), fatal=True)
    except Exception as error:
        return Outcome(job.key, job.kata, error=printable(f"{type(error).__name__}: {error}"))
    verdict = json.dumps(verdict_of(report))
    return Outcome(job.key, job.kata, verdict, accident=report.accident)


def serve(parent: ParentConnection) -> None:
    """Grade one submission after another."""
    setup = codec.unpack(Setup, parent.receive())
    try:
        examiner = examiner_of(setup)
    except (NotIsolated, ValueError) as error:
        parent.send(codec.pack(Outcome("", "", error=str(error), fatal=True)))
        return
    with examiner:
        while True:
            job = codec.unpack(SubmissionJob, parent.receive())
            parent.send(codec.pack(outcome_of(examiner, job)))


def examiner_of(setup: Setup) -> Examiner:
    return Examiner(setup.chips, setup.isolation, Path(setup.root), limit=setup.limit)


def _end(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the examiner's processes are ended first
    sys.exit(0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    try:
        serve(ParentConnection(at_end=lambda: os.kill(os.getpid(), signal.SIGTERM)))
    except ConnectionClosed:
        sys.exit(0)
