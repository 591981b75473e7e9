"""One worker process of `kata grade`.

python -m grader.batch.batch_worker FD
"""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any

from grader.api import Examiner, Report
from grader.batch.executor import Outcome, Setup, SubmissionJob
from grader.sandbox.isolation.confine import NotIsolated
from grader.sandbox.launcher import SandboxError
from grader.sandbox.messages import Closed
from grader.sandbox.worker_pool import Channel
from pallascope.tools import codec
from pallascope.tools.text import printable


def verdict_of(report: Report) -> dict[str, Any]:
    """A report as one flat JSON object: what is added to a sample's row."""
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
    """Grade one submission, and once more where an accident has decided.

    Where it can't be graded, the outcome says why: where that is the repository's fault, or the
    grader's.
    """
    try:
        report = examiner.grade(job.kata, job.source, job.seed)
        if report.accident:
            examiner.close()
            report = examiner.grade(job.kata, job.source, job.seed)
    except SandboxError as error:
        return Outcome(job.key, job.kata, error=str(error), hopeless=True)
    except Exception as error:
        return Outcome(job.key, job.kata, error=printable(f"{type(error).__name__}: {error}"))
    verdict = json.dumps(verdict_of(report))
    return Outcome(job.key, job.kata, verdict, accident=report.accident)


def serve(channel: Channel) -> None:
    """Grade until the other side is gone. A thread takes in what comes, and ends us then."""
    setup = codec.unpack(Setup, channel.receive(None))
    jobs: queue.SimpleQueue[SubmissionJob] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(channel, jobs), daemon=True).start()
    try:
        examiner = examiner_of(setup)
    except (NotIsolated, ValueError) as error:
        channel.send(codec.pack(Outcome("", "", error=str(error), hopeless=True)))
        return
    with examiner:
        while True:
            channel.send(codec.pack(outcome_of(examiner, jobs.get())))


def examiner_of(setup: Setup) -> Examiner:
    return Examiner(setup.chips, setup.isolation, Path(setup.root), limit=setup.limit)


def _listen(channel: Channel, jobs: queue.SimpleQueue[SubmissionJob]) -> None:
    try:
        while True:
            jobs.put(codec.unpack(SubmissionJob, channel.receive(None)))
    except Closed:
        return
    finally:  # also where a message is none: nobody else would come to know
        os.kill(os.getpid(), signal.SIGTERM)


def _end(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the processes of the bench are ended first
    sys.exit(0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    try:
        serve(Channel(socket.socket(fileno=int(sys.argv[1]))))
    except Closed:
        sys.exit(0)
