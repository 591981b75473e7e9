"""Grades one text after another, in processes that stay warm."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from grader.api.reports import Report
from grader.exercise.cases import hidden_cases, random_seed
from grader.exercise.catalog import SOLUTIONS, Kata, katas
from grader.exercise.repository import RepositoryError, find_root
from grader.exercise.submission import Submission
from grader.grading.counted import Counted
from grader.grading.grader import Grader
from grader.model import Conditions, Mode
from grader.report.standings import standing
from grader.sandbox import devices
from grader.sandbox.asking import Asking, Lines
from grader.sandbox.bench import Bench
from grader.sandbox.isolation import Isolation, demanded
from grader.tools.nearest import did_you_mean
from grader.tools.versions import versions
from grader.tpu.chips import CHIPS, DEFAULT

#: Seconds for each step of a hidden case, unless the kata's key says otherwise: as pytest's.
SECONDS = 30.0
#: Answers about solutions that stay, some ten for each kata and seed.
KEPT = 256


class UnknownKata(ValueError):
    """There is no kata of this id; the text says which one may be meant."""


class Examiner:
    """Grades texts like pytest grades files: in the strict interpreter, on the CPU.

    `chips` are the TPUs to compile for; costs are of the first. `isolation` is "require" (nothing
    is graded where the kernel can't isolate what imports a submission), "auto" (as far as it can)
    or "off". `root` is the folder that holds katas/ and solutions/; without it, the one that the
    current folder lies in, else the clone that this package was imported from. `seconds` is how
    long one step of a hidden case may take, where the kata's key says nothing else.

    Processes start with the first grade and end with `close`. One Examiner serves one thread; make
    several for several cores. Raises NotIsolated, RepositoryError, ValueError for an unknown chip.
    """

    def __init__(
        self,
        chips: Sequence[str] = (DEFAULT,),
        isolation: Isolation | str = Isolation.REQUIRE,
        root: Path | None = None,
        seconds: float = SECONDS,
    ) -> None:
        self._chips = _known(chips)
        if not (math.isfinite(seconds) and seconds > 0):
            raise ValueError(f"seconds={seconds}: a submission needs a limit above 0")
        self._seconds = seconds
        self._isolation = Isolation(isolation)
        self._level = demanded(self._isolation)
        self._device = devices.choose(Mode.STRICT.value, devices.Hardware(tpu=False, gpu=False))
        self._root = root.resolve() if root else _repository()
        self._katas = {kata.id: kata for kata in katas(self._root, SOLUTIONS)}
        if not self._katas:
            raise RepositoryError(f"there are no katas in {self._root}")
        self._answers: dict[str, str] = {}  # by kata: the digest of what is graded against
        self._lines: Lines | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def katas(self) -> tuple[str, ...]:
        """The ids of all katas, in the order of the course."""
        return tuple(self._katas)

    def grade(self, kata: str, source: str, seed: int | None = None) -> Report:
        """Grade a whole file as this kata's, on the hidden cases of a seed (None: a random one).

        Whatever is wrong with the text is in the Report: what doesn't parse, is empty, or has more
        than 1 MiB, fails; the unchanged stub is `todo`. What it does to its processes ends with
        it. Raises UnknownKata; TypeError where `source` is no text; BrokenKata and KeyProblem
        where the solution or its key is at fault, or has changed since it was first used;
        SandboxError where no process can be started.
        """
        if not isinstance(source, str):
            raise TypeError(f"the source of {kata} is {type(source).__name__}, and has to be str")
        seed = random_seed() if seed is None else seed
        submission = Submission.of(self._kata(kata), source)
        answer = self._answers.setdefault(kata, submission.answer_digest())
        counted, limit = Counted(submission, answer), submission.key.timeout or self._seconds
        try:
            grader = Grader(Asking(self._warm(), self._chips))  # a new one: it remembers hangs
            grades = tuple(
                counted.grade(lambda: grader, case, limit)
                for case in hidden_cases(submission, seed)
            )
            self._warm().part()
        except BaseException:
            self.close()  # who knows what is under way; the next grade begins anew
            raise
        worst = standing(submission, grades)
        decides = next(grade for grade in grades if grade.case == worst.case)
        return Report(
            kata=kata,
            seed=seed,
            state=worst.state,
            stars=worst.stars,
            finding=decides.finding,
            grades=grades,
            blob=decides.blob,
            seconds=round(worst.seconds, 3),
            conditions=Conditions(seed, self._device, self._chips, str(self._level)),
            versions=tuple((name, of or "not installed") for name, of in versions().items()),
            not_judged=worst.not_judged,
            beside_par=worst.beside_par,
        )

    @property
    def bench(self) -> Bench | None:
        """The processes that there are, None before the first grade. For measuring them alone."""
        return self._lines.bench if self._lines else None

    def close(self) -> None:
        """End all processes and remove their files. A later grade starts new ones."""
        lines, self._lines = self._lines, None
        if lines:
            lines.bench.close()

    def _kata(self, id: str) -> Kata:
        if id in self._katas:
            return self._katas[id]
        by_name = {kata.name: kata.id for kata in self._katas.values()}
        meant = by_name.get(id) or ""
        hint = f"its id is {meant!r}" if meant else did_you_mean(str(id), self._katas)
        raise UnknownKata(f"no kata has the id {id!r}{f'; {hint}' if hint else ''}")

    def _warm(self) -> Lines:
        if self._lines is None:
            self._lines = Lines(Bench(self._device, isolation=self._isolation), KEPT)
        return self._lines


def _known(chips: Sequence[str]) -> tuple[str, ...]:
    if isinstance(chips, str) or not chips:
        raise ValueError(f"chips={chips!r}: give the names of chips in a tuple")
    for chip in chips:
        if chip not in CHIPS:
            raise ValueError(f"no chip {chip!r}, but {', '.join(CHIPS)}")
    return tuple(chips)


def _repository() -> Path:
    with contextlib.suppress(RepositoryError):
        return find_root(Path.cwd())
    return find_root(Path(__file__).resolve())
