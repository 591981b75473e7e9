"""Background jobs of `kata watch`: grading, confirming, commands.

Grading in the background: hidden cases dealt to graders that are warm, and can be stopped.
A lane is a thread with a bench of its own: as many cases are graded at a time as there are lanes.
Each keeps a spare worker that has already run and compiled something, and what the solution's side
of a case came to: of a grading only the learner's own kernel is left to trace, run and compile.

Passes that pytest confirms, one after another: it alone writes down that a kata is solved.

Commands beside the watch: `kata hint` and others, one at a time, in processes of their own.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import shutil
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from grader.exercise.catalog import KATAS, Kata
from grader.exercise.key_tables import KeyProblem
from grader.exercise.regions import RegionError
from grader.grading.grader import Grader
from grader.record.ledger import read_ledger
from grader.report.completion import compare_grades, solved_text
from grader.report.failures import broken_kata_message
from grader.sandbox.client import Asking, BrokenKata, Lines
from grader.sandbox.launcher import SandboxError
from grader.sandbox.worker_pool import Bench, Stopped
from grader.verdict import Case, Device, Grade
from grader.watching.watch_events import CommandEnded, Event, Graded, GradingFailed
from grader.watching.watch_screen import Screen, Settings

MOST = 2  # more would take memory, half a GB each, and cores that compiling uses too
#: What a lane keeps of solutions: reference and par, for two cases of eight katas.
KEPT = 32

Tell = Callable[[Event], None]


def lanes_here() -> int:
    """How many lanes this machine has the cores for."""
    return min(MOST, os.cpu_count() or 1)


@dataclass(frozen=True, slots=True)
class GradingJob:
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
            lane.begin(run, [GradingJob(run, kata, case, seconds) for case in share])
        return run

    def prepare(self, kata: Kata, cases: Sequence[Case]) -> None:
        """Have ready whatever does not depend on the learner's code, unless a run begins."""
        for lane, share in self._dealt(cases):
            lane.add([GradingJob(0, kata, case) for case in share])

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
        self._jobs: queue.SimpleQueue[GradingJob | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._run = 0  # the one under way; jobs of another are not done

    # ---- from the thread that watches ----

    def begin(self, run: int, jobs: Sequence[GradingJob]) -> None:
        """Do these jobs, and none of those before."""
        with self._lock:
            self._run = run
            self._bench.stop()
            with contextlib.suppress(queue.Empty):
                while True:
                    self._jobs.get_nowait()
        self.add(jobs)

    def add(self, jobs: Sequence[GradingJob]) -> None:
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
                self._tell(GradingFailed(job.run, traceback.format_exc()))
            if self._jobs.empty():
                self._rest()

    def _do(self, job: GradingJob) -> None:
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
            self._tell(GradingFailed(job.run, broken_kata_message(error)))
        except SandboxError as error:
            self._tell(GradingFailed(job.run, f"Kernels cannot be run here.\n{error}"))
        except OSError as error:
            self._tell(GradingFailed(job.run, str(error)))

    def _rest(self) -> None:
        """Have processes ready for the next save."""
        with contextlib.suppress(SandboxError, Stopped):  # grading will say so
            self._lines.warm(self._chips)


#: What pytest's summary says of the record, and the watch repeats.
RECORD = ("recorded", "not recorded")


class Running(Protocol):
    """Runs one command at a time in the background; its end comes as an event."""

    def start(self, module: str, *arguments: str) -> int: ...
    def drop(self) -> None: ...


class Confirming:
    """The passes still to confirm, on hidden cases that pytest draws anew."""

    def __init__(self, settings: Settings, running: Running, screen: Screen) -> None:
        self._settings, self._running, self._screen = settings, running, screen
        self._command = 0  # the one that confirms a pass, 0 if none runs
        self._passed: list[Kata] = []  # to confirm, the first of them now
        self._first: dict[str, str] = {}  # of katas never solved before: how their cost compares

    def add(self, kata: Kata, grades: Sequence[Grade]) -> None:
        """Have this pass confirmed, as soon as those before it are."""
        self.forget(kata)
        self._passed.append(kata)
        if read_ledger(kata.root).last(kata.id) is None:
            self._first[kata.id] = compare_grades(grades)
        self._screen.note("pytest confirms it, on hidden cases drawn anew …")
        if not self._command:
            self._begin()

    def forget(self, kata: Kata) -> None:
        """Confirm no earlier content of this kata; passes of others are confirmed all the same."""
        ids = [one.id for one in self._passed]
        if kata.id not in ids:
            return
        del self._passed[ids.index(kata.id)]
        if ids[0] == kata.id:
            self._running.drop()
            self._command = 0
            if self._passed:
                self._begin()

    def ended(self, event: CommandEnded) -> bool:
        """Tell what came of a pass; False where the command that ended was another."""
        if event.command != self._command:
            return False
        self._command = 0
        self._tell(self._passed.pop(0), event)
        if self._passed:
            self._begin()
        return True

    def _begin(self) -> None:
        kata, chip, seconds = self._passed[0], self._settings.chip, self._settings.seconds
        limit = () if seconds is None else (f"--timeout={seconds:g}",)
        arguments = (f"{KATAS}/{kata.id}.py", "-q", "--no-header", f"--kata-chip={chip}", *limit)
        self._command = self._running.start("pytest", *arguments)

    def _tell(self, kata: Kata, event: CommandEnded) -> None:
        if event.code:
            self._screen.note(f"{kata.name} is not confirmed; on other hidden cases:", "red")
            self._screen.text(event.said)
            return
        said = [line for line in event.said.splitlines() if line.startswith(RECORD)]
        self._screen.note(f"{kata.name} is confirmed", "green")
        self._screen.text("\n".join(said))
        self._tell_of_solved(kata)

    def _tell_of_solved(self, kata: Kata) -> None:
        """What its key has for afterwards, once, and once the ledger knows of the pass."""
        if kata.id in self._first and read_ledger(kata.root).last(kata.id):
            text = solved_text(kata, self._first.pop(kata.id))
            if text is not None:
                self._screen.show(text)


class Commands:
    """Runs a module's command line, and tells what it said; a new one ends the one before."""

    #: Of all commands in this process, so that no two ends are taken for each other.
    _numbers = itertools.count(1)

    def __init__(self, root: Path, tell: Callable[[Event], None], colour: bool) -> None:
        self._root = root
        self._tell = tell
        self._colour = colour
        self._running: subprocess.Popen[bytes] | None = None

    def start(self, module: str, *arguments: str) -> int:
        """Run `python -m MODULE ARGUMENTS`; returns its number, which its end carries."""
        self.drop()
        number = next(self._numbers)
        self._running = process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=self._root,
            env=self._environ(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # what it starts ends with it
        )
        threading.Thread(target=self._wait, args=(process, number), daemon=True).start()
        return number

    def _environ(self) -> dict[str, str]:
        width = str(shutil.get_terminal_size().columns)
        colour = {"FORCE_COLOR": "1"} if self._colour else {"NO_COLOR": "1"}
        return {**os.environ, "COLUMNS": width, "PYTHONIOENCODING": "utf-8", **colour}

    def _wait(self, process: subprocess.Popen[bytes], number: int) -> None:
        said, _ = process.communicate()
        self._tell(CommandEnded(number, process.returncode, said.decode("utf-8", "replace")))

    def drop(self) -> None:
        """End the command that runs, if one does."""
        if self._running and self._running.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._running.pid, 15)
        self._running = None


def words(arguments: Sequence[str]) -> str:
    """A `kata` command as one would type it."""
    return " ".join(["kata", *arguments])
