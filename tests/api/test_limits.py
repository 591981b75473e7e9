"""What ends a submission that takes too long."""

from __future__ import annotations

import threading
from typing import cast

from grader.api.examiner import Deadline, timeout_finding
from grader.sandbox.worker_pool import WorkerPool


class FakePool:
    def __init__(self) -> None:
        self.stopped = threading.Event()

    def stop(self) -> None:
        self.stopped.set()


def test_it_rings_once_the_seconds_are_over() -> None:
    pool = FakePool()
    with Deadline(cast(WorkerPool, pool), 0.01) as alarm:
        assert pool.stopped.wait(60)
    assert alarm.expired


def test_who_is_done_in_time_is_not_stopped() -> None:
    pool = FakePool()
    with Deadline(cast(WorkerPool, pool), 600) as alarm:
        pass
    assert not alarm.expired
    assert not pool.stopped.is_set()


def test_the_finding_names_the_limit() -> None:
    assert timeout_finding(300.0).phrase == "no verdict after 300 s"
