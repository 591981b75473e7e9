"""Grades one kata on one hidden case: notes, two-core chips, failures of the grader itself."""

from __future__ import annotations

import dataclasses
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any

from grader.checks.evidence import Evidence, GpuEvidence, TpuEvidence, required_by
from grader.exercise.cases import case_of_values, hidden_cases
from grader.exercise.catalog import Kata
from grader.exercise.key_tables import KeyProblem
from grader.grading.ladder import LADDERS, verdict
from grader.sandbox.client import WorkerClient
from grader.sandbox.gpu_runs import GpuLaunchClient
from grader.sandbox.launch_client import BrokenKata, TpuLaunchClient
from grader.sandbox.launcher import SandboxError
from grader.sandbox.worker_pool import Stopped
from grader.verdict import Case, Grade, State
from pallascope.checks import values
from pallascope.model import (
    Accident,
    BlockSample,
    Check,
    Clues,
    Finding,
    Hypothesis,
    Observation,
    OperationPlace,
    Reference,
)
from pallascope.tools.regions import RegionError
from pallascope.tools.text import printable, shortened
from pallascope.tpu import OnChip
from pallascope.tpu.chips import named

_CORES = {1: "one", 2: "two"}
#: Exceptions that no submission causes: of the course, of the machine, or because grading stopped.
NOT_THE_SUBMISSION = (BrokenKata, KeyProblem, RegionError, SandboxError, Stopped, OSError)


class Grader:
    """Grades cases one after another, using the workers' answers."""

    def __init__(self, client: WorkerClient) -> None:
        self._client = client

    def prepare(self, kata: Kata, case: Case) -> None:
        """Start with the reference of a case that will be graded next."""
        self._client.prepare(kata, case)

    def rehearse(self, kata: Kata, case: Case) -> None:
        """Compute the solution's side of a case in advance. Raises BrokenKata."""
        reference = self._client.reference(kata, case)
        if costs(kata, case) and kata.key.kernel:
            self._client.solution(kata, case, reference).compiled()

    def grade(self, kata: Kata, case: Case, seconds: float | None) -> Grade:
        """Grade the learner's file on one case, within `seconds` (None: no limit).

        If the grader itself fails on the file, the grade says so, and other files are still graded.
        Raises BrokenKata if the solution's side fails, SandboxError if no process starts.
        """
        self._client.take_killed()
        try:
            grade = self._graded(kata, case, seconds)
        except NOT_THE_SUBMISSION:
            raise
        except Exception as error:
            return _failed_over(kata, case, error)
        return dataclasses.replace(grade, accident=bool(self._client.take_killed()))

    def _graded(self, kata: Kata, case: Case, seconds: float | None) -> Grade:
        started = time.perf_counter()
        target = kata.key.target
        fields = target.grade_fields(self._client.chip(kata))
        if lacking := target.missing():
            return Grade(kata.id, case.index, State.PASSED, 0, not_judged=lacking, **fields)
        evidence = evidence_of(self._client, kata, case, seconds)
        judged = verdict(evidence)
        beside = _on_this_tpu(evidence, case) if judged.stars else ()
        compared = judged.state is State.PASSED or (
            judged.finding is not None and judged.finding.check is Check.COST
        )
        on_chip = evidence.key.kernel and evidence.costs and compared
        return Grade(
            kata=kata.id,
            case=case.index,
            state=judged.state,
            stars=judged.stars,
            finding=judged.finding,
            drawn="" if kata.key.tested else str(case),  # a test chooses its own sizes
            seconds=round(time.perf_counter() - started, 3),
            printed=evidence.attempt.printed,
            cost=LADDERS[target.name].cost(evidence) if on_chip else None,
            not_judged=judged.not_judged,
            notes=(
                *notes_of(evidence),
                *self._on_another_chip(kata, judged.state),
                *(f"{evidence.file}: {told}" for told in beside),
                *(f"{evidence.file}: {told}" for told in self._client.take_notes()),
            ),
            **fields,
        )

    def _on_another_chip(self, kata: Kata, state: State) -> tuple[str, ...]:
        """A note, if a kata needs more cores than the session's chips have: it names the chip."""
        asked, chip = self._client.asked, self._client.chip(kata)
        if chip in asked or kata.key.cores == 1 or state is State.TODO:
            return ()
        needs, has = _CORES[kata.key.cores], _CORES[named(asked[0]).cores]
        why = f"its kernel is for {needs} TensorCores, and a {asked[0]} has {has}"
        return (f"{kata.location()[0]}: judged for a {chip}: {why}",)


def _on_this_tpu(evidence: Evidence, case: Case) -> Iterator[str]:
    """A note on a launch that is right in the strict run, but wrong on this machine's TPU."""
    ran = evidence.on_this_tpu()
    if ran is not None and (wrong := values.wrong_on_tpu(evidence, ran)):
        yield (
            f"hidden{case.index}: right in the strict interpreter, which decides, but not on "
            f"the TPU of this machine: {wrong}"
        )


def _failed_over(kata: Kata, case: Case, error: Exception) -> Grade:
    """The grade of a case on which the grader itself has failed."""
    kind = type(error).__name__
    said = (
        f"The grader failed on this file with {kind}, so it couldn't judge the kernel.\n"
        "This is a bug in the grader, unless the file attacks it. Please report it, with the "
        "file and the output of pytest -vv."
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
    """Whether the compiler's numbers are judged on a case: the case of production size, or all
    cases if there is none.

    Small cases are quick to interpret, but their fixed costs hide the costs that grow with size.
    """
    if not (kata.key.kernel or kata.key.predictions):
        return False
    return case.production or kata.key.production is None


def evidence_of(
    client: WorkerClient, kata: Kata, case: Case, seconds: float | None, events: int = 0
) -> Evidence:
    """Run the learner's launch on one case: the evidence for a grade.

    Its predicted schedule keeps up to `events` single transfers and stalls. Raises BrokenKata,
    SandboxError.
    """
    client.boot(kata)  # while the reference is computed
    reference = client.reference(kata, case)
    own = client.learner(kata, case, reference, seconds, events)
    par = client.solution(kata, case, reference, events)
    client.begin(own)
    if client.eager and costs(kata, case) and kata.key.kernel:
        par.begin_compiling()
    attempt = client.attempt(own)

    @cache
    def clues() -> Clues:
        assert isinstance(attempt, Observation)
        return own.clues(attempt)

    @cache
    def hypotheses() -> tuple[Hypothesis, ...]:
        return own.hypotheses(attempt) if isinstance(attempt, Observation) else ()

    common = {
        **required_by(kata.key),
        "mode": own.mode,
        "file": kata.location()[0],
        "attempt": attempt,
        "reference": reference,
        "chips": own.chips,
        "production": case.production,
        "costs": costs(kata, case),
        "clues": clues,
        "hypotheses": hypotheses,
        "resembles": partial(client.resembles, own, par),
        "is_mistake": partial(client.is_mistake, own, par),
        "on_this_tpu": own.on_this_tpu,
    }
    return EVIDENCE[kata.key.target.name](client, own, par, common)


def _tpu_evidence(
    client: WorkerClient, own: TpuLaunchClient, par: TpuLaunchClient, common: dict[str, Any]
) -> TpuEvidence:
    @cache
    def own_on_chips() -> OnChip | Accident:
        if common["costs"]:
            par.begin_compiling()
        return own.compiled()

    @cache
    def hidden_places() -> tuple[frozenset[OperationPlace], ...]:
        cases = hidden_cases(own.kata, own.case.session_seed)[: own.kata.key.count]
        launches = (
            client.learner(
                own.kata, case, client.inputs(own.kata, case), own.seconds, kind=type(own)
            )
            for case in cases
        )
        found = [launch.places() for launch in launches]
        return tuple(frozenset(places or ()) for places in found) if None not in found else ()

    def redrawn() -> Reference:
        case = own.case
        return client.reference(own.kata, dataclasses.replace(case, seed=case.seed + 1))

    case = case_of_values(own.kata, own.case)
    smaller = {name: size for name, size in case.sizes.items() if size != own.case.sizes[name]}

    @cache
    def samplers() -> tuple[TpuLaunchClient, TpuLaunchClient]:
        if not smaller:
            return own, par
        inputs = client.inputs(own.kata, case)
        return (
            client.learner(own.kata, case, inputs, own.seconds, kind=type(own)),
            client.solution(own.kata, case, inputs, kind=type(par)),
        )

    @cache
    def par_sample() -> BlockSample | Accident:
        return samplers()[1].block_sample(_before(client, own))

    return TpuEvidence(
        **common,
        repaired=cache(partial(own.repaired, redrawn)),
        own_on_chips=own_on_chips,
        par_on_chips=cache(par.compiled),
        repeats=cache(own.repeats),
        measured=cache(partial(client.measured, own.kata, own.case)),
        baselines=cache(partial(client.baselines, own.kata, own.case)),
        own_sample=cache(lambda: samplers()[0].block_sample(_before(client, own), par_sample())),
        par_sample=par_sample,
        exact_sample=cache(
            lambda: samplers()[1].block_sample(_before(client, own), par_sample(), exact=True)
        ),
        values_sizes=smaller,
        hidden_places=hidden_places,
    )


def _before(client: WorkerClient, launch: TpuLaunchClient) -> Reference:
    """The reference of the last hidden case, which is graded before that of production size."""
    case = hidden_cases(launch.kata, launch.case.session_seed)[launch.kata.key.count - 1]
    return client.reference(launch.kata, case)


def _gpu_evidence(
    _client: WorkerClient, own: GpuLaunchClient, par: GpuLaunchClient, common: dict[str, Any]
) -> GpuEvidence:
    return GpuEvidence(
        **common,
        lowered=own.lowered,
        compiled=own.compiled,
        par_compiled=par.compiled,
        ran=cache(own.ran),
        par_ran=cache(par.ran),
        timed=cache(partial(own.timed, par)),
        lines=tuple(map(printable, own.source.content.decode(errors="replace").splitlines())),
    )


#: By target: the answers that its rungs need.
EVIDENCE: Mapping[str, Callable[..., Evidence]] = {"tpu": _tpu_evidence, "gpu": _gpu_evidence}
