"""Questions to the workers about a kata: expected results, XLA's estimates, broken specs, hangs.

    reference, inputs, xla, spec_flops, measured, baselines     of the solution's spec and programs
    learner, solution                                           a launch: see `LaunchClient`
    boot, begin, attempt, resembles, is_mistake                 of the learner's launch

One process traces a launch. Other processes get the trace and judge it. If a process dies over a
question, the answer is an `Accident`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from grader.exercise.catalog import Kata
from grader.exercise.key_tables import KataKind
from grader.exercise.mutants import is_known_mistake, planted_of_case
from grader.exercise.targets import GPUS
from grader.sandbox.gpu_runs import GpuLaunchClient
from grader.sandbox.known_mistakes import Agrees, WrongResult
from grader.sandbox.launch_client import (
    BrokenKata,
    LaunchClient,
    TpuLaunchClient,
    WorkerQueues,
    expected,
    learners_file,
    solution_file,
)
from grader.sandbox.messages import EstimateXla, EvaluateReference, Measure
from grader.sandbox.mutant_trials import BrokenPlanted, TrialSubject
from grader.sandbox.request_queue import SECONDS
from grader.verdict import Case
from pallascope.model import (
    QUANTITIES,
    Accident,
    ArrayType,
    Measured,
    Observation,
    Problem,
    Reference,
)
from pallascope.runs.questions import Warm
from pallascope.tpu.chips import DEFAULT
from pallascope.tpu.compiler import Estimate

L = TypeVar("L", bound=LaunchClient)
#: By target: the client for launches.
LAUNCH_CLIENTS: Mapping[str, Any] = {"tpu": TpuLaunchClient, "gpu": GpuLaunchClient}

#: Seconds for XLA to compile the programs of a kata, on a busy machine.
XLA_SECONDS = 300.0


class WorkerClient:
    """Asks the workers of one pool about launches for chips of these names.

    A launch for TPUs is traced for the first of `chips`, and compiled for all of them. A launch for
    GPUs is for `gpu`, or for the only GPU that its key names. `queues` may outlive the client, with
    the answers that they keep. `eager`: a core is idle, so the client asks questions that only a
    right kernel needs before it knows that the kernel is right. `literally`: use these chips, even
    if a kata needs others. `runners`, by target, run launches on this machine's hardware. Every
    question may raise SandboxError, if no process starts.
    """

    def __init__(
        self,
        queues: WorkerQueues,
        chips: tuple[str, ...] = (DEFAULT,),
        eager: bool = False,
        literally: bool = False,
        gpu: str = GPUS[0],
        runners: Mapping[str, Any] | None = None,
    ) -> None:
        self.mode = queues.pool.device.mode
        self.asked = chips
        self.eager = eager
        self._gpu = gpu
        self._runners = runners or {}
        self._literally = literally
        self._queues = queues
        self._stuck: dict[Path, Accident] = {}

    def chips(self, kata: Kata) -> tuple[str, ...]:
        """The chips that a kata's launches are compiled for; the cost is judged on the first."""
        cores = 1 if self._literally else kata.key.cores
        return kata.key.target.chips(cores, self.asked, self._gpu)

    def chip(self, kata: Kata) -> str:
        """The chip that a launch is traced for, and its cost judged on."""
        return self.chips(kata)[0]

    def take_killed(self) -> tuple[Accident, ...]:
        """The answers lost since the last call because a process was killed from outside."""
        killed = tuple(self._queues.killed)
        self._queues.killed.clear()
        return killed

    def take_notes(self) -> tuple[str, ...]:
        """Notes since the last call about runs on this machine's hardware. No verdict changes."""
        return tuple(note for runner in self._runners.values() for note in runner.take_notes())

    # ---- the solution's spec and programs ----

    def prepare(self, kata: Kata, case: Case) -> None:
        """Have the trusted worker begin on a case that will be graded next."""
        self._queues.trusted.ask(_refer(kata, case, evaluated=not case.production))

    def reference(self, kata: Kata, case: Case) -> Reference:
        """Inputs and, for a case that is run, the expected results. Raises BrokenKata."""
        reference = self._referred(kata, _refer(kata, case, evaluated=not case.production))
        if not case.production and bool(kata.key.random) != any(reference.outcomes):
            has, lacks = "[random]", f"{kata.name}_outcomes"
            has, lacks = (has, lacks) if kata.key.random else (lacks, has)
            raise BrokenKata(f"{kata.name} has {has}, but no {lacks}: random results need both")
        return reference

    def inputs(self, kata: Kata, case: Case) -> Reference:
        """The same without the expected results, for cases of any size. Raises BrokenKata."""
        return self._referred(kata, _refer(kata, case, evaluated=False))

    def _referred(self, kata: Kata, question: EvaluateReference) -> Reference:
        self._queues.turn_to(kata.id)
        match self._queues.trusted.answer(question):
            case Reference() as reference:
                return reference
            case Accident() as accident:
                raise BrokenKata(f"the solution's spec: {accident.phrase}\n{accident.message}")
            case Problem() as problem:
                raise BrokenKata(f"the solution's spec: {_in_short(problem)}")
            case answer:
                raise TypeError(f"a worker must answer a Reference, and answered {answer!r}")

    def xla(self, kata: Kata, case: Case, reference: Reference) -> Estimate | None:
        """XLA's estimate for the spec on the first chip; None if there is none.

        If results are random, or the launch is for several devices, the spec computes something
        else than the launch.
        """
        if kata.key.random or kata.key.mesh:
            return None
        source, chip = solution_file(kata), self.chip(kata)
        question = EstimateXla(source, kata.name, case, reference.inputs, chip)
        answer = self._queues.trusted.answer(question)
        return answer if isinstance(answer, Estimate) else None

    def spec_flops(self, kata: Kata, case: Case) -> int:
        """The operations of the spec's matrix products; 0 if they can't be counted."""
        programs = (f"{kata.name}_spec",)
        question = Measure(solution_file(kata), case, programs, self.asked[0], ask_xla=False)
        answer = self._queues.trusted.answer(question)
        return answer.programs[0].products if isinstance(answer, Measured) else 0

    def measured(self, kata: Kata, case: Case) -> Measured:
        """The lower bounds of a kata's programs on the first chip. Raises BrokenKata."""
        found = self._measured(kata, case, SECONDS, ask_xla=False)
        if isinstance(found, Accident):
            raise BrokenKata(f"the solution's programs: {found.phrase}\n{found.message}")
        return found

    def baselines(self, kata: Kata, case: Case) -> Measured | Accident:
        """The same, with XLA's program for each. Raises BrokenKata."""
        return self._measured(kata, case, XLA_SECONDS, ask_xla=True)

    def _measured(
        self, kata: Kata, case: Case, seconds: float, *, ask_xla: bool
    ) -> Measured | Accident:
        assert kata.key.predictions
        programs = kata.key.predictions.programs
        question = Measure(solution_file(kata), case, programs, self.chip(kata), ask_xla)
        answer = self._queues.trusted.answer(question, seconds)
        if isinstance(answer, Problem):
            raise BrokenKata(f"the solution's programs: {_in_short(answer)}")
        return expected(Measured, answer)

    # ---- launches ----

    def learner(
        self,
        kata: Kata,
        case: Case,
        reference: Reference,
        seconds: float | None,
        events: int = 0,
        kind: type[L] = LaunchClient,
    ) -> L:
        """A client for the learner's launch, of this `kind` if only one target is possible.

        Its predicted schedule keeps up to `events` single transfers and stalls.
        """
        return self._launch(kind, kata, case, reference, seconds, events)

    def solution(
        self,
        kata: Kata,
        case: Case,
        reference: Reference,
        events: int = 0,
        kind: type[L] = LaunchClient,
    ) -> L:
        """A client for the solution's launch."""
        return self._launch(kind, kata, case, reference, SECONDS, events, solution=True)

    def _launch(
        self, kind: type[L], kata: Kata, case: Case, reference: Reference, *how: Any, **which: Any
    ) -> L:
        target = kata.key.target.name
        launch = (self._queues, kata, case, reference, self.chips(kata), *how)
        client = LAUNCH_CLIENTS[target](*launch, **which, runner=self._runners.get(target))
        assert isinstance(client, kind)
        return client

    # ---- the learner's launch ----

    def boot(self, kata: Kata) -> None:
        """Start the process that will trace the kata's launch; if `eager`, also the compiler."""
        self._queues.pool.attempt(learners_file(kata))
        if self.eager and kata.key.target.uses_libtpu:
            self._queues.compiling.warm(Warm(None, self.chips(kata), compiles=False))

    def begin(self, launch: LaunchClient) -> None:
        """Send the questions of `attempt` ahead of time."""
        kata = launch.kata
        if kata.path not in self._stuck and kata.key.kind is not KataKind.TEST:
            launch.begin_trace()

    def attempt(self, launch: LaunchClient) -> Observation | Accident:
        """Trace and run the learner's launch; at production size, trace it.

        After one hidden case has hung, the kata's other cases are not run.
        """
        path = launch.kata.path
        if stuck := self._stuck.get(path):
            return stuck
        answer = self._trials(launch) if launch.kata.key.tested else launch.run()
        if isinstance(answer, Accident) and answer.stuck:
            self._stuck[path] = answer
        return answer

    def _trials(self, launch: LaunchClient) -> Observation | Accident:
        """The results of the learner's test on the kernels that it should tell apart."""
        kata, case = launch.kata, launch.case
        assert kata.key.tested
        self._queues.pool.attempt(launch.source)
        files, chip = (launch.source, kata.name, solution_file(kata)), self.chip(kata)
        subject = TrialSubject(*files, kata.key.tested.launch, case, chip, self.mode)
        try:
            found = self._queues.trials.of(subject, planted_of_case(kata.key, case), launch.seconds)
        except BrokenPlanted as error:
            raise BrokenKata(str(error)) from None
        if isinstance(found, Accident):
            self._queues.pool.dismiss()
        return found

    def is_mistake(self, own: LaunchClient, par: LaunchClient) -> bool:
        """Whether the learner's file has the text of a known mistake."""
        text, solution = (each.source.content.decode(errors="replace") for each in (own, par))
        return is_known_mistake(text, solution, own.kata.key.mistakes)

    def resembles(self, own: LaunchClient, par: LaunchClient, agrees: Agrees) -> str:
        """The title of a known mistake that gives the observed results; else ""."""
        kata = own.kata
        files, case = (own.source, par.source, kata.key.mistakes), (own.case, own.reference.inputs)
        wrong_result = WrongResult(*files, *case, par.trace_question, self.mode)
        return self._queues.known_mistakes.first(wrong_result, agrees)


def _refer(kata: Kata, case: Case, evaluated: bool) -> EvaluateReference:
    spec, results = kata.key.kind not in (KataKind.PREDICTIONS, KataKind.TEST), ()
    if asked := kata.key.predictions:
        results = (ArrayType("float32", (len(asked.programs), len(QUANTITIES))),)
    return EvaluateReference(solution_file(kata), kata.name, case, evaluated, spec, results)


def _in_short(problem: Problem) -> str:
    where = f" (line {problem.place.line}: {problem.place.text})" if problem.place else ""
    return f"{problem.kind}: {problem.message}{where}"
