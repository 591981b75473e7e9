"""A collector for each kata file, an item with its failure text for each hidden case, the session.

This process doesn't import the learner's file. Collecting needs only its name and its answer key,
so a file that doesn't parse is collected like any other, and its cases fail.
"""

from __future__ import annotations

import bdb
import re
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from grader.exercise.cases import hidden_cases
from grader.exercise.catalog import MAX_GRADED_BYTES, Kata, katas, selects
from grader.exercise.key_tables import KeyProblem
from grader.exercise.targets import GPUS
from grader.grading.grader import Grader
from grader.grading.session_case import Counted, Requirements
from grader.report.failures import broken_kata_message, explanation
from grader.sandbox.client import WorkerClient
from grader.sandbox.gpu_runs import GpuRunner
from grader.sandbox.isolation import Isolation, Level, level
from grader.sandbox.launch_client import BrokenKata, TpuRunner, WorkerQueues
from grader.sandbox.launcher import Launcher, SandboxError
from grader.sandbox.worker_pool import WorkerPool
from grader.verdict import Case, Conditions, Device, Grade, State
from pallascope.tools.regions import RegionError
from pallascope.tpu.chips import DEFAULT


class Session:
    """The session of one process. Without a `launcher`, jax starts when the first kernel is graded.

    `alone`: no other process grades at the same time.
    """

    def __init__(
        self,
        root: Path,
        seed: int,
        device: Device,
        required: tuple[str, ...] = (),
        chips: tuple[str, ...] = (DEFAULT,),
        launcher: Launcher | None = None,
        alone: bool = True,
        isolation: Isolation = Isolation.AUTO,
        gpu: str = GPUS[0],
    ) -> None:
        self.root = root
        self.seed = seed
        self.device = device
        self.chips = chips
        self.gpu = gpu
        self._required = required
        self._launcher = launcher
        self._alone = alone
        self._isolation = isolation
        self.pool: WorkerPool | None = None  # None before the first grade
        self._tpu: TpuRunner | None = None

    @property
    def conditions(self) -> Conditions:
        """The settings of this session's grades."""
        return Conditions(self.seed, self.device, self.chips, str(self.isolated), self.gpu)

    @cached_property
    def isolated(self) -> Level:
        """How a process that imports a kata is isolated."""
        return level(self._isolation)

    def cases(self, kata: Kata) -> tuple[Case, ...]:
        """The kata's hidden cases in this session. Raises KeyProblem."""
        return hidden_cases(kata, self.seed)

    @cached_property
    def requirements(self) -> Requirements:
        """The katas that --kata-require names."""
        return Requirements(self._required, katas(self.root))

    @cached_property
    def grader(self) -> Grader:
        """The grader. Its processes start with the first use, and end with the session."""
        self.pool = WorkerPool(self.device, self._launcher, self._isolation)
        self._tpu = TpuRunner() if self.device.tpu else None
        runners = {"gpu": GpuRunner(), **({"tpu": self._tpu} if self._tpu else {})}
        queues = WorkerQueues(self.pool)
        return Grader(WorkerClient(queues, self.chips, self._alone, gpu=self.gpu, runners=runners))

    def close(self) -> None:
        """End all processes that were started."""
        if self.pool is not None:
            self.pool.close()
        elif self._launcher is not None:
            self._launcher.close()
        if self._tpu is not None:
            self._tpu.close()


SEED = "kata_seed"  # the key of the controller's seed in an xdist worker's input
SESSION = pytest.StashKey[Session]()
SECONDS = pytest.StashKey[float | None]()
GRADE = pytest.StashKey[Grade]()
NEXT = pytest.StashKey["pytest.Item | None"]()


class KataFailed(bdb.BdbQuit):
    """A hidden case failed. Has the whole text for the learner.

    It is a BdbQuit, so that pytest --pdb doesn't open a debugger: the learner's frames are in
    another process.
    """


class KataFile(pytest.File):
    """Collects the hidden cases of one kata's file."""

    kata: Kata

    @classmethod
    def of(cls, kata: Kata, parent: pytest.Collector) -> KataFile:
        node = cls.from_parent(parent, path=kata.path)
        node.kata = kata
        return node

    def collect(self) -> Iterator[KataCase]:
        """One item for each hidden case; a single item if the key is broken."""
        session = self.config.stash[SESSION]
        expression = self.config.option.keyword
        if expression and not selects(expression, self.kata):
            return  # -k would deselect all of them, so don't read the key
        try:
            cases: tuple[Case | None, ...] = session.cases(self.kata)
        except KeyProblem:
            cases = (None,)
        answer = self.kata.answer_digest()
        for index, case in enumerate(cases):
            name = f"{self.kata.test}[hidden{index}]"
            # Without the full nodeid, pytest 9.2 misreads the brackets, and --lf fails.
            item: KataCase = KataCase.from_parent(self, name=name, nodeid=f"{self.nodeid}::{name}")
            item.kata, item.case, item.answer = self.kata, case, answer
            if case is not None and (seconds := self.kata.key.timeout):
                item.add_marker(pytest.mark.timeout(seconds))
            yield item


class KataCase(pytest.Item):
    """One hidden case of one kata. `case` is None if the answer key is broken.

    `answer` is the digest of solution and key when the case was collected.
    """

    kata: Kata
    case: Case | None
    answer: str

    @property
    def session_of_katas(self) -> Session:
        return self.config.stash[SESSION]

    def runtest(self) -> None:
        """Grade the case. Returns for a pass, skips for a todo, raises KataFailed otherwise."""
        try:
            grade = self._grade()
        except (KeyProblem, RegionError, BrokenKata) as error:
            raise KataFailed(broken_kata_message(error)) from error
        except SandboxError as error:
            raise KataFailed(f"Kernels cannot be run here.\n{error}") from error
        self.stash[GRADE] = grade
        self._report_output(grade.printed)
        if grade.state is State.TODO:
            pytest.skip("todo")
        if grade.finding and grade.finding.full and self.config.get_verbosity() > 1:
            self.add_report_section("call", "full error", grade.finding.full)
        if grade.finding and grade.state is State.FAILED:
            seed, links = self.session_of_katas.seed, has_links(self.config)
            raise KataFailed(explanation(self.kata, grade, self.nodeid, seed, links=links))

    def _grade(self) -> Grade:
        session = self.session_of_katas
        if self.case is None:
            session.cases(self.kata)  # raises KeyProblem
        assert self.case is not None
        counted = Counted(self.kata, self.answer, session.requirements)
        next_item = self.stash.get(NEXT, None)
        next_case = next_item if isinstance(next_item, KataCase) else None
        return counted.grade(
            lambda: session.grader,
            self.case,
            self.stash.get(SECONDS, None),
            (next_case.kata, next_case.case) if next_case and next_case.case else None,
        )

    def _report_output(self, printed: str) -> None:
        if not printed:
            return
        if self.config.getoption("capture") == "no":
            sys.stdout.write(printed)
        else:
            self.add_report_section("call", "stdout", printed)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The learner's text; a traceback only if the grader itself has failed."""
        if isinstance(excinfo.value, KataFailed):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """The line (0-based) of the test in the learner's file, for editors."""
        return self.path, _line_of_test(self.path, self.kata.test), self.name


def has_links(config: pytest.Config) -> bool:
    """Whether a failure's text has the address of its explanation: not with -q."""
    return config.get_verbosity() >= 0


def _line_of_test(path: Path, test: str) -> int:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read(MAX_GRADED_BYTES).splitlines()
    except OSError:
        return 0
    pattern = re.compile(rf"def\s+{re.escape(test)}\b")
    return next((number for number, line in enumerate(lines) if pattern.match(line)), 0)
