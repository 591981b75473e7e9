"""Background jobs of `kata watch`: grading, confirming passes, other `kata` commands.

Each grading thread has its own worker processes. It keeps a spare worker warm and caches the
results of the solution, so that only the learner's kernel has to be traced, run and compiled.
Passes are confirmed by pytest, because only pytest records that a kata is solved.
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
from grader.grading.grader import Grader
from grader.record.ledger import read_ledger
from grader.report.completion import compare_grades, solved_text
from grader.report.failures import broken_kata_message
from grader.sandbox.client import WorkerClient
from grader.sandbox.launch_client import BrokenKata, WorkerQueues
from grader.sandbox.launcher import SandboxError
from grader.sandbox.worker_pool import Stopped, WorkerPool
from grader.verdict import Case, Device, Grade
from grader.watching.watch_events import CommandEnded, Event, Graded, GradingFailed
from grader.watching.watch_screen import Screen, Settings
from pallascope.tools.regions import RegionError

MAX_THREADS = 2  # each takes half a GB of memory, and compiling needs the cores, too
#: Results of solutions that a thread caches: reference and par, for two cases of eight katas.
CACHED_ANSWERS = 32

PostEvent = Callable[[Event], None]


def thread_count() -> int:
    """The number of grading threads for this machine's cores."""
    return min(MAX_THREADS, os.cpu_count() or 1)


@dataclass(frozen=True, slots=True)
class GradingJob:
    """A case to grade in a run. If `run` is 0, the solution's results are only prepared."""

    run: int
    kata: Kata
    case: Case
    seconds: float | None = None


class GradingThreads:
    """Grades one kata at a time. A new run cancels the current one."""

    def __init__(
        self,
        device: Device,
        chips: tuple[str, ...],
        post_event: PostEvent,
        count: int = MAX_THREADS,
    ):
        self._runs = itertools.count(1)
        self._threads = [_GradingThread(device, chips, post_event) for _ in range(count)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for thread in self._threads:
            thread.close()

    def grade(self, kata: Kata, cases: Sequence[Case], seconds: float | None) -> int:
        """Start to grade. Returns the run's number, which its events carry."""
        run = next(self._runs)
        for thread, share in self._distributed(cases):
            thread.begin(run, [GradingJob(run, kata, case, seconds) for case in share])
        return run

    def prepare(self, kata: Kata, cases: Sequence[Case]) -> None:
        """Prepare the results that don't depend on the learner's code, until a run starts."""
        for thread, share in self._distributed(cases):
            thread.add([GradingJob(0, kata, case) for case in share])

    def cancel(self) -> None:
        """Cancel the current run. It posts no more events."""
        run = next(self._runs)
        for thread in self._threads:
            thread.begin(run, [])

    def _distributed(self, cases: Sequence[Case]) -> list[tuple[_GradingThread, Sequence[Case]]]:
        count = len(self._threads)
        return [(thread, cases[number::count]) for number, thread in enumerate(self._threads)]


class _GradingThread(threading.Thread):
    """Runs one job after another in its own worker processes."""

    def __init__(self, device: Device, chips: tuple[str, ...], post_event: PostEvent) -> None:
        super().__init__(name="grading", daemon=True)
        self._chips = chips
        self._post_event = post_event
        self._pool = WorkerPool(device)
        self._queues = WorkerQueues(self._pool, CACHED_ANSWERS)
        self._grader = Grader(WorkerClient(self._queues, chips))
        self._jobs: queue.SimpleQueue[GradingJob | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._run = 0  # the current run; jobs of other runs are skipped

    # ---- called by the watching thread ----

    def begin(self, run: int, jobs: Sequence[GradingJob]) -> None:
        """Drop all jobs, and run these."""
        with self._lock:
            self._run = run
            self._pool.stop()
            with contextlib.suppress(queue.Empty):
                while True:
                    self._jobs.get_nowait()
        self.add(jobs)

    def add(self, jobs: Sequence[GradingJob]) -> None:
        """Run these jobs after the waiting ones."""
        for job in jobs:
            self._jobs.put(job)

    def close(self) -> None:
        """End the processes, then the thread."""
        self.begin(-1, [])
        self._jobs.put(None)
        self.join(timeout=5)
        self._pool.close()

    # ---- runs in this thread ----

    def run(self) -> None:
        graded = 0
        while job := self._jobs.get():
            if job.run != graded:
                # A new Grader forgets hangs: a kernel that was saved again is tried again.
                self._grader = Grader(WorkerClient(self._queues, self._chips))
                graded = job.run
            try:
                self._run_job(job)
            except Exception:
                # If the thread ended silently, the learner would wait forever.
                self._post_event(GradingFailed(job.run, traceback.format_exc()))
            if self._jobs.empty():
                self._warm_up()

    def _run_job(self, job: GradingJob) -> None:
        with self._lock:
            if job.run not in (0, self._run):
                return
            self._pool.go()
        try:
            if job.run:
                grade = self._grader.grade(job.kata, job.case, job.seconds)
                self._post_event(Graded(job.run, grade))
            else:
                self._grader.rehearse(job.kata, job.case)
        except Stopped:
            self._queues.drop_pending()
        except (BrokenKata, KeyProblem, RegionError) as error:
            self._post_event(GradingFailed(job.run, broken_kata_message(error)))
        except SandboxError as error:
            self._post_event(GradingFailed(job.run, f"Kernels cannot be run here.\n{error}"))
        except OSError as error:
            self._post_event(GradingFailed(job.run, str(error)))

    def _warm_up(self) -> None:
        """Start processes for the next save."""
        with contextlib.suppress(SandboxError, Stopped):  # the next grading reports it
            self._queues.warm(self._chips)


#: The lines of pytest's summary that the watch repeats start with these.
RECORD_PREFIXES = ("recorded", "not recorded")


class CommandRunner(Protocol):
    """Runs one command at a time in the background, and posts an event when it ends."""

    def start(self, module: str, *arguments: str) -> int: ...
    def cancel(self) -> None: ...


class PassConfirmer:
    """Confirms passes by pytest, which draws new hidden cases, one kata at a time."""

    def __init__(self, settings: Settings, runner: CommandRunner, screen: Screen) -> None:
        self._settings, self._runner, self._screen = settings, runner, screen
        self._command = 0  # the number of the running pytest, 0 if none runs
        self._to_confirm: list[Kata] = []  # pytest runs for the first of them
        self._first_passes: dict[str, str] = {}  # kata id -> comparison of its cost

    def add(self, kata: Kata, grades: Sequence[Grade]) -> None:
        """Confirm this pass after those that are waiting."""
        self.forget(kata)
        self._to_confirm.append(kata)
        if read_ledger(kata.root).last(kata.id) is None:
            self._first_passes[kata.id] = compare_grades(grades)
        self._screen.note("pytest confirms it on new hidden cases …")
        if not self._command:
            self._begin()

    def forget(self, kata: Kata) -> None:
        """Don't confirm this kata: its content has changed. Other katas are still confirmed."""
        ids = [other.id for other in self._to_confirm]
        if kata.id not in ids:
            return
        del self._to_confirm[ids.index(kata.id)]
        if ids[0] == kata.id:
            self._runner.cancel()
            self._command = 0
            if self._to_confirm:
                self._begin()

    def ended(self, event: CommandEnded) -> bool:
        """Show the result of a confirmation; False if another command ended."""
        if event.command != self._command:
            return False
        self._command = 0
        self._report(self._to_confirm.pop(0), event)
        if self._to_confirm:
            self._begin()
        return True

    def _begin(self) -> None:
        kata, chip, seconds = self._to_confirm[0], self._settings.chip, self._settings.seconds
        limit = () if seconds is None else (f"--timeout={seconds:g}",)
        arguments = (f"{KATAS}/{kata.id}.py", "-q", "--no-header", f"--kata-chip={chip}", *limit)
        self._command = self._runner.start("pytest", *arguments, "-p", "grader.plugin")

    def _report(self, kata: Kata, event: CommandEnded) -> None:
        if event.code:
            self._screen.note(f"{kata.name} is not confirmed. On other hidden cases:", "red")
            self._screen.text(event.output)
            return
        lines = [line for line in event.output.splitlines() if line.startswith(RECORD_PREFIXES)]
        self._screen.note(f"{kata.name} is confirmed", "green")
        self._screen.text("\n".join(lines))
        self._show_solved_text(kata)

    def _show_solved_text(self, kata: Kata) -> None:
        """Show the key's `after` text once, when the ledger has the kata's first pass."""
        if kata.id in self._first_passes and read_ledger(kata.root).last(kata.id):
            text = solved_text(kata, self._first_passes.pop(kata.id))
            if text is not None:
                self._screen.show(text)


class BackgroundCommands:
    """Runs a module's command line, and posts its output. A new command ends the previous one."""

    #: Numbers of commands are unique in this process.
    _numbers = itertools.count(1)

    def __init__(self, root: Path, post_event: Callable[[Event], None], use_colour: bool) -> None:
        self._root = root
        self._post_event = post_event
        self._use_colour = use_colour
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, module: str, *arguments: str) -> int:
        """Run `python -m MODULE ARGUMENTS`. Returns a number, which its CommandEnded carries."""
        self.cancel()
        number = next(self._numbers)
        self._process = process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=self._root,
            env=self._environ(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that `cancel` ends its children, too
        )
        threading.Thread(target=self._wait, args=(process, number), daemon=True).start()
        return number

    def _environ(self) -> dict[str, str]:
        width = str(shutil.get_terminal_size().columns)
        colour = {"FORCE_COLOR": "1"} if self._use_colour else {"NO_COLOR": "1"}
        return {**os.environ, "COLUMNS": width, "PYTHONIOENCODING": "utf-8", **colour}

    def _wait(self, process: subprocess.Popen[bytes], number: int) -> None:
        output, _ = process.communicate()
        self._post_event(
            CommandEnded(number, process.returncode, output.decode("utf-8", "replace"))
        )

    def cancel(self) -> None:
        """End the running command, if there is one."""
        if self._process and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, 15)
        self._process = None


def command_line(arguments: Sequence[str]) -> str:
    """The command line of a `kata` command."""
    return " ".join(["kata", *arguments])
