"""Examiner, ExaminerPool and Report: grading for other programs.

An Examiner grades one text after another, in processes that stay warm. A pool of Examiners serves
many threads, or an event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Self

from grader.exercise.cases import hidden_cases, random_seed
from grader.exercise.catalog import SOLUTIONS, Kata, Submission, katas
from grader.exercise.repository import RepositoryError, root_or_course
from grader.grading.grader import Grader
from grader.grading.session_case import Counted
from grader.report.session_standings import standing
from grader.sandbox import devices
from grader.sandbox.client import WorkerClient
from grader.sandbox.isolation import Isolation, demanded
from grader.sandbox.launch_client import WorkerQueues
from grader.sandbox.time_limits import DEFAULT_SECONDS
from grader.sandbox.worker_pool import Stopped, WorkerPool
from grader.tools.git import blob_id
from grader.verdict import MAX_STARS, Case, Conditions, Cost, Grade, State
from pallascope.model import Check, Finding, Mode, NotJudged
from pallascope.tools import codec
from pallascope.tools.text import did_you_mean
from pallascope.tools.versions import versions
from pallascope.tpu.chips import CHIPS, DEFAULT


class Deadline:
    """Stops a pool when its time limit is over."""

    def __init__(self, pool: WorkerPool, limit: float) -> None:
        self._pool = pool
        self._expired = threading.Event()
        self._timer = threading.Timer(limit, self._expire)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._timer.join()

    @property
    def expired(self) -> bool:
        """Whether it has stopped the pool. Later results may be those of ended processes."""
        return self._expired.is_set()

    def _expire(self) -> None:
        self._expired.set()
        self._pool.stop()


def timeout_finding(seconds: float) -> Finding:
    """The finding for a submission whose hidden cases take longer than the limit together."""
    message = (
        f"The hidden cases took more than {seconds:g} s together, so grading was stopped. "
        "Each step of each case stayed below its own limit.\n"
        "Usual reasons: much Python work while the file is imported or the launch is traced, "
        "or element-by-element work, which the interpreter does one load at a time."
    )
    return Finding(Check.RUNS, f"no verdict after {seconds:g} s", message)


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict on one submission: that of its worst hidden case, as on pytest's map.

    `grades` has one grade for each hidden case, in order. `finding` is that of the worst case, if
    any. `not_judged` is the first rung that could not be judged here, for example without libtpu;
    stars stop below it. `blob` is git's id of the text. `beside_par` is the ratio of its predicted
    cycles (of its HBM bytes, if cycles aren't known) to the solution's, in the worst case; None if
    no launch was compared. `versions` are pairs of package and version.
    """

    kata: str
    seed: int
    state: State
    stars: int
    finding: Finding | None
    grades: tuple[Grade, ...]
    blob: str
    seconds: float
    conditions: Conditions
    versions: tuple[tuple[str, str], ...]
    not_judged: NotJudged | None = None
    beside_par: float | None = None

    @property
    def accident(self) -> bool:
        """Whether a judging process was killed from outside, or the grader itself failed. Another
        run may give another verdict then."""
        return any(grade.accident for grade in self.grades)

    @property
    def cost(self) -> Cost | None:
        """Bytes and cycles, and those of par, of the last hidden case that has any."""
        return next((grade.cost for grade in reversed(self.grades) if grade.cost), None)

    @property
    def speed(self) -> float | None:
        """Its predicted speed as a multiple of par's; None if it isn't known."""
        return 1 / self.beside_par if self.beside_par else None

    def as_dict(self) -> dict[str, Any]:
        """All fields as JSON values, with `reward`, `speed`, `cost` and `accident`."""
        derived = {"reward": self.reward(), "speed": self.speed, "cost": self.cost}
        derived |= {"accident": self.accident}
        return codec.to_builtins(self) | {
            name: codec.to_builtins(value) for name, value in derived.items()
        }

    def reward(self) -> float:
        """One number from 0 to 1.

        0 for wrong or unfinished code, 1/3 for right results (★), 2/3 for a kernel that a TPU
        accepts (★★); above that, up to 1, by par's cycles ÷ its own. If no launch is compared, as
        in katas without a kernel, ★★★ give 1. Without the third star, a launch whose known cost is
        par's gets 2/3: another cost is too high, or its time isn't known.
        """
        if self.stars < MAX_STARS - 1:
            return self.stars / MAX_STARS
        default = float(self.stars == MAX_STARS)
        speed = self.speed
        unknown = speed is None or (speed >= 1 and self.stars < MAX_STARS)
        fraction = default if unknown else min(1.0, speed or default)
        return (MAX_STARS - 1 + fraction) / MAX_STARS


#: Seconds for all hidden cases of a submission together.
DEFAULT_LIMIT = 300.0
#: Cached results of solutions; each kata and seed has about ten.
CACHED_ANSWERS = 256


class UnknownKata(ValueError):
    """No kata has this id. The text suggests another one."""


class Examiner:
    """Grades texts like pytest grades files: in the strict interpreter, on the CPU.

    `chips` are the TPUs to compile for; costs are of the first. `isolation` is "require" (grade
    nothing if the operating system can't isolate a submission's process), "auto" (isolate as far as
    it can) or "off". `root` is the folder that has katas/ and solutions/; by default the one around
    the current folder, else the clone that this package was imported from. `seconds` is the time
    limit of one step of a hidden case, unless the kata's key has another, and `limit` that of all
    hidden cases together.

    Processes start with the first grade and end with `close`. One Examiner serves one thread at a
    time; for several cores make several, or an ExaminerPool. After a fork, the new process starts
    its own workers. Raises NotIsolated, RepositoryError, ValueError for an unknown chip.
    """

    def __init__(
        self,
        chips: Sequence[str] = (DEFAULT,),
        isolation: Isolation | str = Isolation.REQUIRE,
        root: Path | None = None,
        seconds: float = DEFAULT_SECONDS,
        limit: float = DEFAULT_LIMIT,
    ) -> None:
        self._chips = _require_known_chips(chips)
        for name, value in (("seconds", seconds), ("limit", limit)):
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name}={value}: a submission needs a limit above 0")
        self._seconds, self._limit = seconds, limit
        self._isolation = Isolation(isolation)
        self._level = demanded(self._isolation)
        self._device = devices.choose(Mode.STRICT.value, devices.Hardware(tpu=False, gpu=False))
        self._root = root.resolve() if root else root_or_course(Path.cwd())
        self._katas = {kata.id: kata for kata in katas(self._root, SOLUTIONS)}
        if not self._katas:
            raise RepositoryError(f"there are no katas in {self._root}")
        self._answers: dict[str, str] = {}  # by kata: the digest of its solution and key
        self._queues: WorkerQueues | None = None
        self._pid, self._busy, self._busy_thread = os.getpid(), threading.Lock(), 0

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an Examiner owns processes, so it can't be copied: make one in each process"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def katas(self) -> tuple[str, ...]:
        """The ids of all katas, in the order of the course."""
        return tuple(self._katas)

    @property
    def root(self) -> Path:
        """The folder that holds katas/ and solutions/."""
        return self._root

    def grade(self, kata: str, source: str, seed: int | None = None) -> Report:
        """Grade a whole file of this kata, on the hidden cases of a seed (None: a random one).

        Errors in the text are in the Report: a text that doesn't parse, is empty, or has more than
        1 MiB fails; the unchanged stub is `todo`. Its effects on its processes end with it. Raises
        UnknownKata; TypeError if `source` isn't a str or `seed` isn't an int; BrokenKata or
        KeyProblem if the solution or its key is at fault, or has changed since it was first used;
        SandboxError if no process can be started; RuntimeError while another thread is served.
        """
        if not isinstance(source, str):
            raise TypeError(f"the source of {kata} is {type(source).__name__}, and must be str")
        if not isinstance(seed, int | None):
            raise TypeError(f"the seed is {type(seed).__name__}, and must be int")
        with self._exclusive():
            return self._report(kata, source, seed)

    @contextlib.contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Serve only the calling thread while the block runs."""
        self._forget_if_forked()
        if not self._busy.acquire(blocking=False):
            raise RuntimeError(
                "this Examiner is grading for another thread: make one for each, or an ExaminerPool"
            )
        self._busy_thread = threading.get_ident()
        try:
            yield
        finally:
            self._busy.release()

    def _forget_if_forked(self) -> None:
        """In a forked process, drop the processes and the lock, which belong to the parent."""
        if self._pid != os.getpid():
            self._pid, self._queues, self._busy = os.getpid(), None, threading.Lock()

    def _report(self, kata: str, source: str, seed: int | None) -> Report:
        seed = random_seed() if seed is None else seed
        submission = Submission.of(self._kata(kata), source)
        answer_digest = self._answers.setdefault(kata, submission.answer_digest())
        counted, limit = Counted(submission, answer_digest), submission.key.timeout or self._seconds
        try:
            grades = self._graded(counted, hidden_cases(submission, seed), limit)
        except BaseException:
            self.close()  # workers may still be busy; the next grade starts new ones
            raise
        worst = standing(submission, grades)
        worst_grade = next(grade for grade in grades if grade.case == worst.case)
        return Report(
            kata=kata,
            seed=seed,
            state=worst.state,
            stars=worst.stars,
            finding=worst_grade.finding,
            grades=grades,
            blob=worst_grade.blob,
            seconds=round(worst.seconds, 3),
            conditions=Conditions(seed, self._device, self._chips, str(self._level)),
            versions=tuple(
                (name, version or "not installed") for name, version in versions().items()
            ),
            not_judged=worst.not_judged,
            beside_par=worst.beside_par,
        )

    def _graded(self, counted: Counted, cases: Sequence[Case], seconds: float) -> tuple[Grade, ...]:
        """A grade for each case. After the submission's limit, cases get `timeout_finding`."""
        grader = Grader(WorkerClient(self._pool(), self._chips))  # a new one: it remembers hangs
        grades: list[Grade] = []
        with Deadline(self._pool().pool, self._limit) as deadline:
            for case in cases:
                grade = None
                if not deadline.expired:
                    with contextlib.suppress(Stopped):
                        grade = counted.grade(lambda: grader, case, seconds)
                grades.append(
                    grade
                    if grade and not deadline.expired
                    else self._timed_out_grade(counted, case)
                )
        if deadline.expired:
            self.close()  # some of its processes have ended, others are still busy
        else:
            self._pool().part()
        return tuple(grades)

    def _timed_out_grade(self, counted: Counted, case: Case) -> Grade:
        blob = blob_id(counted.kata.content())
        finding = timeout_finding(self._limit)
        return Grade(counted.kata.id, case.index, State.FAILED, 0, finding, blob=blob)

    @property
    def pool(self) -> WorkerPool | None:
        """The worker processes, None before the first grade. Only for measurements."""
        return self._queues.pool if self._queues else None

    def close(self) -> None:
        """End all processes and remove their files. A later grade starts new ones.

        Raises RuntimeError while another thread is served, whose submission would fail.
        """
        self._forget_if_forked()
        if self._busy.locked() and self._busy_thread != threading.get_ident():
            raise RuntimeError("this Examiner is grading for another thread")
        queues, self._queues = self._queues, None
        if queues:
            queues.pool.close()

    def _kata(self, id: str) -> Kata:
        if id in self._katas:
            return self._katas[id]
        by_name = {kata.name: kata.id for kata in self._katas.values()}
        same_name = by_name.get(id) or ""
        hint = f"its id is {same_name!r}" if same_name else did_you_mean(str(id), self._katas)
        raise UnknownKata(f"no kata has the id {id!r}{f'; {hint}' if hint else ''}")

    def _pool(self) -> WorkerQueues:
        if self._queues is None:
            self._queues = WorkerQueues(
                WorkerPool(self._device, isolation=self._isolation), CACHED_ANSWERS
            )
        return self._queues


def _require_known_chips(chips: Sequence[str]) -> tuple[str, ...]:
    if isinstance(chips, str) or not chips:
        raise ValueError(f"chips={chips!r}: give the names of chips in a tuple")
    for chip in chips:
        if chip not in CHIPS:
            raise ValueError(f"no chip {chip!r}: choose from {', '.join(CHIPS)}")
    return tuple(chips)


class ExaminerPool:
    """A pool of Examiners. A call waits while all of them are busy.

        async with ExaminerPool(lambda: Examiner(isolation="require"), size=4) as pool:
            reports = await asyncio.gather(*(pool.agrade(kata, text) for text in texts))

    `make` makes an Examiner, in a thread, when one more is needed: up to `size`, each of which
    keeps a core busy and takes 450 MB to 1.5 GB of memory. `grade` raises the errors of Examiner.
    """

    def __init__(self, make: Callable[[], Examiner] = Examiner, size: int = 1) -> None:
        if size < 1:
            raise ValueError(f"size={size}: a pool needs at least one Examiner")
        self._make, self._size = make, size
        self._idle: queue.LifoQueue[Examiner] = queue.LifoQueue()  # the latest is the warmest
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="examiner")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.close)

    def grade(self, kata: str, source: str, seed: int | None = None) -> Report:
        """Like `Examiner.grade`, from any thread. Raises RuntimeError once the pool is closed."""
        return self._threads.submit(self._grade, kata, source, seed).result()

    async def agrade(self, kata: str, source: str, seed: int | None = None) -> Report:
        """Like `grade`, without blocking the event loop.

        If the waiting task is cancelled, a grade that has begun is finished; otherwise it is
        dropped.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._grade, kata, source, seed)

    def close(self) -> None:
        """Wait for grades that have begun, drop the others, end all processes."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        while not self._idle.empty():
            self._idle.get_nowait().close()

    def _grade(self, kata: str, source: str, seed: int | None) -> Report:
        try:
            examiner = self._idle.get_nowait()
        except queue.Empty:
            examiner = self._make()  # no more than there are threads
        try:
            return examiner.grade(kata, source, seed)
        finally:
            self._idle.put(examiner)
