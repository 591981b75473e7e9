"""A limit for all of a submission: each step has its own, and there are many."""

from __future__ import annotations

import threading
from typing import Self

from grader.model import Check, Finding
from grader.sandbox.bench import Bench


class Alarm:
    """Stops what is under way at a bench when its seconds are over, and remembers that it did."""

    def __init__(self, bench: Bench, seconds: float) -> None:
        self._bench = bench
        self._rang = threading.Event()
        self._timer = threading.Timer(seconds, self._ring)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._timer.join()

    @property
    def rang(self) -> bool:
        """Whether it has: then what was found meanwhile may be of processes that it ended."""
        return self._rang.is_set()

    def _ring(self) -> None:
        self._rang.set()
        self._bench.stop()


def too_slow(seconds: float) -> Finding:
    """What a submission is told whose hidden cases take longer than that together."""
    said = (
        f"The hidden cases took more than {seconds:g} s together, so grading was stopped. "
        "Each step of each case stayed below its own limit.\n"
        "Usual reasons: a great deal of Python while the file is imported or the launch is traced, "
        "or work element by element, which the interpreter does one load at a time."
    )
    return Finding(Check.RUNS, f"no verdict after {seconds:g} s", said)
