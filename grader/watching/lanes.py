"""Grading in the background: hidden cases dealt to graders that are warm, and can be stopped.

A lane is a thread with a bench of its own: as many cases are graded at a time as there are lanes.
Each keeps a spare worker that has already run and compiled something, and what the solution's side
of a case came to: of a grading only the learner's own kernel is left to trace, run and compile.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

from grader.exercise.catalog import Kata
from grader.exercise.keys import KeyProblem
from grader.exercise.regions import RegionError
from grader.grading.grader import Grader
from grader.model import Case, Device
from grader.report.failures import kata_is_broken
from grader.sandbox.asking import Asking, BrokenKata, Lines
from grader.sandbox.bench import Bench, Stopped
from grader.sandbox.launcher import SandboxError
from grader.watching.events import Event, Graded, NotGraded

MOST = 2  # more would take memory, half a GB each, and cores that compiling uses too
#: What a lane keeps of solutions: reference and par, for two cases of eight katas.
KEPT = 32

Tell = Callable[[Event], None]


def lanes_here() -> int:
    """How many lanes this machine has the cores for."""
    return min(MOST, os.cpu_count() or 1)


@dataclass(frozen=True, slots=True)
class Job:
    """A case to grade in one run, or to prepare for: then `run` is 0."""

    run: int
    kata: Kata
    case: Case
    seconds: float | None = None


class Lanes:
    """Grades one kata at a time; a new run takes the place of the one under way."""

    def __init__(self, device: Device, chips: tuple[str, ...], tell: Tell, count: int = MOST):
        self._runs = itertools.count(1)
        self._lanes = [_Lane(device, chips, tell) for _ in range(count)]

    def __enter__(self) -> Self:
        for lane in self._lanes:
            lane.start()
        return self

    def __exit__(self, *_: object) -> None:
        for lane in self._lanes:
            lane.close()

    def grade(self, kata: Kata, cases: Sequence[Case], seconds: float | None) -> int:
        """Begin to grade; returns the run's number, which its events carry."""
        run = next(self._runs)
        for lane, share in self._dealt(cases):
            lane.begin(run, [Job(run, kata, case, seconds) for case in share])
        return run

    def prepare(self, kata: Kata, cases: Sequence[Case]) -> None:
        """Have ready whatever does not depend on the learner's code, unless a run begins."""
        for lane, share in self._dealt(cases):
            lane.add([Job(0, kata, case) for case in share])

    def drop(self) -> None:
        """End the run under way; no event of it comes after those that are out."""
        run = next(self._runs)
        for lane in self._lanes:
            lane.begin(run, [])

    def _dealt(self, cases: Sequence[Case]) -> list[tuple[_Lane, Sequence[Case]]]:
        count = len(self._lanes)
        return [(lane, cases[number::count]) for number, lane in enumerate(self._lanes)]


class _Lane(threading.Thread):
    """Does one job after another on its own bench."""

    def __init__(self, device: Device, chips: tuple[str, ...], tell: Tell) -> None:
        super().__init__(name="lane", daemon=True)
        self._chips = chips
        self._tell = tell
        self._bench = Bench(device)
        self._lines = Lines(self._bench, KEPT)
        self._grader = Grader(Asking(self._lines, chips))
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._run = 0  # the one under way; jobs of another are not done

    # ---- from the thread that watches ----

    def begin(self, run: int, jobs: Sequence[Job]) -> None:
        """Do these jobs, and none of those before."""
        with self._lock:
            self._run = run
            self._bench.stop()
            with contextlib.suppress(queue.Empty):
                while True:
                    self._jobs.get_nowait()
        self.add(jobs)

    def add(self, jobs: Sequence[Job]) -> None:
        """Do these jobs after those that are waiting."""
        for job in jobs:
            self._jobs.put(job)

    def close(self) -> None:
        """End the processes, then the thread."""
        self.begin(-1, [])
        self._jobs.put(None)
        self.join(timeout=5)
        self._bench.close()

    # ---- in the lane's own thread ----

    def run(self) -> None:
        graded = 0
        while job := self._jobs.get():
            if job.run != graded:
                # A kernel that once hung is tried again when it has been saved again.
                self._grader = Grader(Asking(self._lines, self._chips))
                graded = job.run
            try:
                self._do(job)
            except Exception:
                # A thread that ends without a word would leave the learner waiting.
                self._tell(NotGraded(job.run, traceback.format_exc()))
            if self._jobs.empty():
                self._rest()

    def _do(self, job: Job) -> None:
        with self._lock:
            if job.run not in (0, self._run):
                return
            self._bench.go()
        try:
            if job.run:
                grade = self._grader.grade(job.kata, job.case, job.seconds)
                self._tell(Graded(job.run, grade))
            else:
                self._grader.rehearse(job.kata, job.case)
        except Stopped:
            return
        except (BrokenKata, KeyProblem, RegionError) as error:
            self._tell(NotGraded(job.run, kata_is_broken(error)))
        except SandboxError as error:
            self._tell(NotGraded(job.run, f"Kernels cannot be run here.\n{error}"))
        except OSError as error:
            self._tell(NotGraded(job.run, str(error)))

    def _rest(self) -> None:
        """Have processes ready for the next save."""
        with contextlib.suppress(SandboxError, Stopped):  # grading will say so
            self._lines.warm(self._chips)
