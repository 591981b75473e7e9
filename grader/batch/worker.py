"""One worker process of a crew: an Examiner that grades what comes over its socket.

python -m grader.batch.worker FD [FOLDER]

FOLDER is its own, and is removed at its end, however its driver has ended.
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

from grader.api import BrokenKata, Examiner, KeyProblem, NotIsolated, Report, SandboxError
from grader.batch.orders import Job, Outcome, Setup
from grader.exercise.regions import RegionError
from grader.sandbox.channel import Channel
from grader.sandbox.folders import removed
from grader.sandbox.messages import Closed
from grader.tools import codec


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
    }


def outcome_of(examiner: Examiner, job: Job) -> Outcome:
    """Grade one submission; what is wrong with the repository is told instead of a verdict."""
    try:
        report = examiner.grade(job.kata, job.source, job.seed)
    except SandboxError as error:
        return Outcome(job.key, job.kata, error=str(error), hopeless=True)
    except (BrokenKata, KeyProblem, RegionError, OSError) as error:
        return Outcome(job.key, job.kata, error=f"{type(error).__name__}: {error}")
    return Outcome(job.key, job.kata, json.dumps(verdict_of(report)))


def serve(channel: Channel) -> None:
    """Grade until the other side is gone. A thread takes in what comes, and ends us then."""
    setup = codec.unpack(Setup, channel.receive(None))
    jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(channel, jobs), daemon=True).start()
    try:
        with _examiner(setup) as examiner:
            while True:
                channel.send(codec.pack(outcome_of(examiner, jobs.get())))
    except (NotIsolated, ValueError) as error:
        channel.send(codec.pack(Outcome("", "", error=str(error), hopeless=True)))


def _examiner(setup: Setup) -> Examiner:
    return Examiner(setup.chips, setup.isolation, Path(setup.root), limit=setup.limit)


def _listen(channel: Channel, jobs: queue.SimpleQueue[Job]) -> None:
    try:
        while True:
            jobs.put(codec.unpack(Job, channel.receive(None)))
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
    finally:
        for own in sys.argv[2:]:
            removed(Path(own))
