"""Grades one kata on one hidden case."""

from __future__ import annotations

import dataclasses
import time
import traceback
from collections.abc import Iterator
from functools import cache, partial

from grader.checks import cost, values
from grader.checks.evidence import Evidence
from grader.checks.on_gpu import missing
from grader.exercise.catalog import Kata
from grader.exercise.key_tables import KeyProblem
from grader.exercise.regions import RegionError
from grader.grading.ladder import verdict
from grader.sandbox.client import Asking, BrokenKata
from grader.sandbox.launcher import SandboxError
from grader.sandbox.worker_pool import Stopped
from grader.verdict import (
    Case,
    Check,
    Finding,
    Grade,
    State,
)
from pallascope.model import (
    Accident,
    Clues,
    Mode,
    Observation,
)
from pallascope.tools.text import printable, shortened
from pallascope.tpu import OnChip
from pallascope.tpu.chips import named

_CORES = {1: "one", 2: "two"}
#: Exceptions that no submission causes: the course's, the machine's, or of whoever stops grading.
NOT_THE_SUBMISSION = (BrokenKata, KeyProblem, RegionError, SandboxError, Stopped, OSError)


class Grader:
    """Grades cases one after another, by what it is answered."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    def prepare(self, kata: Kata, case: Case) -> None:
        """Begin on a case that will be graded next."""
        self._asking.prepare(kata, case)

    def rehearse(self, kata: Kata, case: Case) -> None:
        """Have the solution's side of a case answered. Raises BrokenKata."""
        reference = self._asking.reference(kata, case)
        if not (costs(kata, case) and kata.key.kernel):
            return
        if kata.key.gpu:
            self._asking.par_on_gpu(kata, reference)
        else:
            self._asking.par(kata, case, reference)

    def grade(self, kata: Kata, case: Case, seconds: float | None) -> Grade:
        """Grade the learner's file on one case, within `seconds` (None: without end).

        Where the grader itself fails over it, the grade says so: one file's oddities cost others
        nothing. Raises BrokenKata where the solution's side fails, SandboxError where no process
        starts.
        """
        self._asking.take_killed()
        try:
            grade = self._graded(kata, case, seconds)
        except NOT_THE_SUBMISSION:
            raise
        except Exception as error:
            return _failed_over(kata, case, error)
        return dataclasses.replace(grade, accident=bool(self._asking.take_killed()))

    def _graded(self, kata: Kata, case: Case, seconds: float | None) -> Grade:
        started = time.perf_counter()
        if kata.key.gpu and (lacking := missing()):
            gpu = self._asking.gpu_of(kata)
            return Grade(kata.id, case.index, State.PASSED, 0, not_judged=lacking, gpu=gpu)
        evidence = evidence_of(self._asking, kata, case, seconds)
        judged = verdict(evidence)
        beside = self._on_tpu(kata, case, evidence, seconds) if judged.stars else ()
        on_chip = (
            evidence.kernel
            and evidence.gpu is None
            and evidence.costs
            and (
                judged.state is State.PASSED
                or bool(judged.finding and judged.finding.check is Check.COST)
            )
        )
        return Grade(
            kata=kata.id,
            case=case.index,
            state=judged.state,
            stars=judged.stars,
            finding=judged.finding,
            drawn="" if kata.key.tested else str(case),  # a test chooses its own sizes
            seconds=round(time.perf_counter() - started, 3),
            printed=evidence.attempt.printed,
            cost=cost.cost_beside_par(evidence) if on_chip else None,
            not_judged=judged.not_judged,
            notes=(
                *notes_of(evidence),
                *self._on_another_chip(kata, judged.state),
                *(f"{evidence.file}: {told}" for told in beside),
                *(f"{evidence.file}: {told}" for told in self._asking.notes_of_hardware()),
            ),
            gpu=evidence.gpu_chip,
        )

    def _on_tpu(
        self, kata: Kata, case: Case, evidence: Evidence, seconds: float | None
    ) -> Iterator[str]:
        """How a launch whose values are right in the strict run goes wrong on the TPU here."""
        ran = self._asking.ran_on_tpu(kata, case, evidence.reference, seconds)
        if ran is not None and (wrong := values.wrong_on_tpu(evidence, ran)):
            yield (
                f"hidden{case.index}: right in the strict interpreter, which decides, but not on "
                f"the TPU of this machine: {wrong}"
            )

    def _on_another_chip(self, kata: Kata, state: State) -> tuple[str, ...]:
        """That none of the session's chips has the cores that a kata needs, and another one has."""
        asked, chip = self._asking.asked, self._asking.chip(kata)
        if chip in asked or state is State.TODO:
            return ()
        needs, has = _CORES[kata.key.cores], _CORES[named(asked[0]).cores]
        why = f"its kernel is for {needs} TensorCores, and a {asked[0]} has {has}"
        return (f"{kata.location()[0]}: judged for a {chip}: {why}",)


def _failed_over(kata: Kata, case: Case, error: Exception) -> Grade:
    """What becomes of a case over which the grader itself has failed."""
    kind = type(error).__name__
    said = (
        f"The grader failed over this file with {kind}, so nothing is known of the kernel.\n"
        "This is a fault of the grader's, unless the file attacks it. Please report it, with the "
        "file and what pytest -vv shows."
    )
    full = shortened("".join(traceback.format_exception(error)))
    finding = Finding(Check.RUNS, f"the grader failed ({kind})", said, printable(full))
    return Grade(kata.id, case.index, State.FAILED, 0, finding, accident=True)


def notes_of(evidence: Evidence) -> tuple[str, ...]:
    """The notes on a launch, each with its place: "katas/…/kata_01_x.py:7: …"."""
    attempt = evidence.attempt
    trace = attempt.trace if isinstance(attempt, Observation) else None
    notes = trace.notes if trace else ()
    return tuple(f"{_place(evidence.file, note.line)}: {note.text}" for note in notes)


def _place(file: str, line: int) -> str:
    return f"{file}:{line}" if line else file


def costs(kata: Kata, case: Case) -> bool:
    """Whether the compiler's numbers are judged on a case: on that of production size, or on all
    where there is none.

    Small cases are quick to interpret, and too small to compare: fixed costs hide what grows.
    """
    if not (kata.key.kernel or kata.key.predictions):
        return False
    return case.production or kata.key.production is None


def evidence_of(
    asking: Asking, kata: Kata, case: Case, seconds: float | None, events: int = 0
) -> Evidence:
    """Run the learner's launch on one case: what a grade is judged by.

    `events` is how many single transfers and stalls its predicted schedule keeps. Raises
    BrokenKata, SandboxError.
    """
    asking.boot(kata)  # while the reference is computed
    reference = asking.reference(kata, case)
    asking.begin(kata, reference, seconds)
    if asking.eager and costs(kata, case) and kata.key.kernel and not kata.key.gpu:
        asking.begin_par(kata, case, reference, events)
    attempt = asking.attempt(kata, case, reference, seconds)

    @cache
    def clues() -> Clues:
        assert isinstance(attempt, Observation)
        return asking.clues(kata, case, reference, attempt, seconds)

    @cache
    def own_on_chips() -> OnChip | Accident:
        if costs(kata, case):
            asking.begin_par(kata, case, reference, events)
        return asking.own(kata, case, reference, seconds, events)

    lowered_for_gpu = cache(partial(asking.own_on_gpu, kata, reference, seconds, False))
    return Evidence(
        mode=Mode.STRICT if kata.key.gpu else asking.mode,
        file=kata.location()[0],
        attempt=attempt,
        reference=reference,
        kernel=kata.key.kernel,
        outside=kata.key.outside,
        outside_floats=kata.key.outside_floats,
        full_precision=kata.key.full_precision,
        results=kata.key.results,
        roundings=kata.key.roundings,
        clues=clues,
        chips=asking.chips(kata),
        par_required=kata.key.par_required,
        slack=kata.key.slack,
        own_on_chips=own_on_chips,
        par_on_chips=cache(partial(asking.par, kata, case, reference, events)),
        production=case.production,
        costs=costs(kata, case),
        block_by_block=kata.key.block_by_block,
        kind=kata.key.kind,
        predictions=kata.key.predictions,
        measured=cache(partial(asking.measured, kata, case)),
        baselines=cache(partial(asking.baselines, kata, case)),
        resembles=partial(asking.resembles, kata, case, reference),
        random=kata.key.random,
        repeats=cache(partial(asking.repeats, kata, case, reference, seconds)),
        gpu=kata.key.gpu,
        gpu_chip=asking.gpu_of(kata),
        lowered_for_gpu=lowered_for_gpu,
        own_on_gpu=cache(partial(asking.own_on_gpu, kata, reference, seconds)),
        par_on_gpu=cache(partial(asking.par_on_gpu, kata, reference)),
        ran_on_gpu=cache(partial(asking.ran_on_gpu, kata, case, reference, lowered_for_gpu)),
        par_ran_on_gpu=cache(partial(asking.par_ran_on_gpu, kata, case, reference)),
        timed_on_gpu=cache(partial(asking.timed_on_gpu, kata, case, reference, lowered_for_gpu)),
        is_about=kata.key.is_about,
        lines=_lines(kata) if kata.key.gpu else (),
    )


def _lines(kata: Kata) -> tuple[str, ...]:
    return tuple(map(printable, kata.content().decode(errors="replace").splitlines()))
