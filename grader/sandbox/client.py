"""The questions that workers are asked about a launch and its solution.

    of the solution   reference, inputs, par, follow_par, xla
    of the launch     attempt, clues, repeats, resembles, own, follow
    on a TPU          ran_on_tpu
    on a GPU          par_ran_on_gpu; ran_on_gpu, timed_on_gpu

A launch is traced by a process that knows nothing else, and judged by others: what goes from here
to there is the trace. Nothing here judges. Wherever an answer is an `Accident`, the process did not
live to give one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from grader.exercise.catalog import Kata
from grader.exercise.key_tables import GPUS, KataKind
from grader.exercise.mutants import planted_of_case
from grader.sandbox.gpu_runs import GpuJob, OnHardware, OnTpu
from grader.sandbox.judge_worker import reseeded
from grader.sandbox.messages import (
    Answer,
    CompileForGpu,
    EstimateXla,
    Follow,
    LookCloser,
    Looked,
    Measure,
    Post,
    Predict,
    ReadTrace,
    Refer,
    RunResult,
    RunTrace,
    Shares,
    TakeShares,
    Traced,
    TraceLaunch,
    Warm,
    eager_copies,
)
from grader.sandbox.request_queue import SECONDS, Line
from grader.sandbox.worker_pool import Bench
from grader.sandbox.wrong_versions import (
    Agrees,
    BrokenPlanted,
    Recollection,
    Situation,
    Subject,
    Trials,
)
from grader.verdict import Case
from pallascope.model import (
    QUANTITIES,
    Accident,
    ArrayType,
    Axes,
    Clues,
    GpuRun,
    GpuTimes,
    Measured,
    Observation,
    OnGpu,
    Problem,
    Reference,
    Repeats,
    SourceFile,
    devices_of,
)
from pallascope.tools.arrays import holds_nan
from pallascope.tpu import OnChip
from pallascope.tpu.chips import DEFAULT, with_cores
from pallascope.tpu.compiler import Estimate
from pallascope.tpu.pipeline_steps import Followed

T = TypeVar("T")
#: A launch that jax has lowered for a GPU, asked for when it is needed.
Lowered = Callable[[], OnGpu | Accident]

#: For XLA to compile the programs of a kata, seconds each, on a machine with much else to do.
XLA_SECONDS = 300.0
#: A launch is traced once for a chip, and asked about often: so many traces are kept.
TRACES = 8


class BrokenKata(Exception):
    """The solution or its key cannot be used: nobody's kernel can be graded against it."""


class Lines:
    """The questions under way at each post of a bench.

    `kept` is how many of the latest answers about solutions stay for whoever asks the same again.
    `killed` are the answers that are missing since a process was killed from outside.
    """

    def __init__(self, bench: Bench, kept: int = 0) -> None:
        self.bench = bench
        self._kata = ""
        self.killed: list[Accident] = []
        self.trusted = self._line(Post.TRUSTED, max(kept, TRACES))
        self.attempting = self._line(Post.ATTEMPTING, TRACES)
        self.running = self._line(Post.RUNNING)
        self.meshed = self._line(Post.MESHED)
        self.compiling = self._line(Post.COMPILING, kept)
        self.recollection = Recollection(self.trusted, self.runs)
        self.trials = Trials(self.trusted, self.attempting, self.running)

    def _line(self, post: Post, kept: int = 0) -> Line:
        return Line(lambda: self.bench.worker(post), kept, killed=self.killed)

    def runs(self, mesh: Axes) -> Line:
        """The questions to the process that runs launches for such a mesh."""
        return self.meshed if mesh else self.running

    def turn_to(self, kata: str) -> None:
        """From now on the questions are about this kata: processes that the katas before it have
        left large are replaced."""
        if kata != self._kata:
            self._kata = kata
            self.bench.renew()

    def warm(self, chips: tuple[str, ...]) -> None:
        """Have processes ready, and warm, for the next attempt. Raises SandboxError, Stopped.

        Those that have grown large are replaced, while nobody waits for them.
        """
        self.bench.renew()
        self.bench.keep_spare(Warm())
        for line, warm in (
            (self.running, Warm(self.bench.device.mode)),
            (self.compiling, Warm(None, chips)),
        ):
            line.warm(warm)

    def part(self) -> None:
        """Part with the present file: its process, and whatever that has answered.

        What is known of solutions stays. The same file is imported anew when it comes again, and
        processes that its launches have left large are replaced.
        """
        self.bench.dismiss()
        self.bench.renew()
        self.attempting = self._line(Post.ATTEMPTING, TRACES)
        self.trials = Trials(self.trusted, self.attempting, self.running)


class Asking:
    """Asks the workers of one bench, about launches for chips of these names.

    A launch is traced for the first of them; that trace is run, and compiled for all. One for GPUs
    is compiled for `gpu`, or for the only one that its key names. `lines` may outlive this, with
    what they keep. `eager`: there is a core to spare, so what will be needed if a kernel is right
    is asked before it is known to be. `literally`: for these chips, whatever a kata needs. Without
    `hardware`, nothing is run on a GPU, and without `tpu` nothing on a TPU. Every question may
    raise SandboxError, where no process starts.
    """

    def __init__(
        self,
        lines: Lines,
        chips: tuple[str, ...] = (DEFAULT,),
        eager: bool = False,
        literally: bool = False,
        gpu: str = GPUS[0],
        hardware: OnHardware | None = None,
        tpu: OnTpu | None = None,
    ) -> None:
        self.mode = lines.bench.device.mode
        self.asked = chips
        self.gpu = gpu
        self._hardware = hardware
        self._tpu = tpu
        self._literally = literally
        self.eager = eager
        self._lines = lines
        self._stuck: dict[Path, Accident] = {}

    def chips(self, kata: Kata) -> tuple[str, ...]:
        """Those for which a kata's launches are judged: with as many TensorCores as its key says.

        Where none of the chips has so many, another chip takes their place.
        """
        return self.asked if self._literally else with_cores(kata.key.cores, self.asked)

    def chip(self, kata: Kata) -> str:
        """The one that a launch is traced for, and its cost judged on."""
        return self.chips(kata)[0]

    def take_killed(self) -> tuple[Accident, ...]:
        """The answers that are missing, since asked last, as a process was killed from outside."""
        killed = tuple(self._lines.killed)
        self._lines.killed.clear()
        return killed

    # ---- the solution's side ----

    def prepare(self, kata: Kata, case: Case) -> None:
        """Have the trusted worker begin on a case that will be graded next."""
        self._lines.trusted.ask(_refer(kata, case, evaluated=not case.production))

    def reference(self, kata: Kata, case: Case) -> Reference:
        """Inputs and, of a case that is run, what must come back. Raises BrokenKata."""
        reference = self._referred(kata, _refer(kata, case, evaluated=not case.production))
        if not case.production and bool(kata.key.random) != any(reference.outcomes):
            has, lacks = "[random]", f"{kata.name}_outcomes"
            has, lacks = (has, lacks) if kata.key.random else (lacks, has)
            raise BrokenKata(f"{kata.name} has {has}, and no {lacks}: random results need both")
        return reference

    def inputs(self, kata: Kata, case: Case) -> Reference:
        """The same without what must come back, for cases of any size. Raises BrokenKata."""
        return self._referred(kata, _refer(kata, case, evaluated=False))

    def begin_par(self, kata: Kata, case: Case, reference: Reference, events: int = 0) -> None:
        """Begin on what `par` will ask. Waits for the solution's traces."""
        traced = self._par_traced(kata, reference)
        for chip in self.chips(kata):
            if isinstance(traced, Traced) and not traced.problem:
                question = _predict(kata, _answer(kata), traced, reference, chip, events)
                self._lines.compiling.ask(question)

    def par(
        self, kata: Kata, case: Case, reference: Reference, events: int = 0
    ) -> OnChip | Accident:
        """The solution's launch on its way to the chips."""
        traced = self._par_traced(kata, reference)
        return self._on_all_chips(kata, _answer(kata), traced, reference, SECONDS, events)

    def follow_par(self, kata: Kata, case: Case, reference: Reference) -> Followed | Accident:
        """The blocks of the solution's launch, step by step."""
        traced = self._par_traced(kata, reference)
        return self._followed(kata, _answer(kata), traced, reference, SECONDS)

    def xla(self, kata: Kata, case: Case, reference: Reference) -> Estimate | None:
        """XLA's estimate for the spec on the first chip; None where it can't be asked.

        Of random results the spec says less than the launch does: it is not the same program.
        Neither is it where the launch is for several devices.
        """
        if kata.key.random or kata.key.mesh:
            return None
        source, chip = _answer(kata), self.chip(kata)
        question = EstimateXla(source, kata.name, case, reference.inputs, chip)
        answer = self._lines.trusted.answer(question)
        return answer if isinstance(answer, Estimate) else None

    def gpu_of(self, kata: Kata) -> str:
        """The GPU that a kata's launch is compiled for; "" where it is for TPUs."""
        return (kata.key.gpu.only_on or self.gpu) if kata.key.gpu else ""

    def begin_par_on_gpu(self, kata: Kata, reference: Reference) -> None:
        """Begin on what `par_on_gpu` will ask. Waits for the solution's trace."""
        traced = self._par_traced(kata, reference)
        if isinstance(traced, Traced) and not traced.problem:
            self._lines.compiling.ask(self._compile(kata, _answer(kata), traced, reference))

    def par_on_gpu(
        self, kata: Kata, reference: Reference, compiled: bool = True
    ) -> OnGpu | Accident:
        """The solution's launch on its way to the GPU."""
        traced = self._par_traced(kata, reference)
        return self._on_gpu(kata, _answer(kata), traced, reference, XLA_SECONDS, compiled)

    def par_ran_on_gpu(self, kata: Kata, case: Case, reference: Reference) -> GpuRun | None:
        """The solution's launch, run on the GPU that is here; None where none is."""
        par = self.par_on_gpu(kata, reference, compiled=False)
        return self._ran_on_gpu(f"the solution of {kata.id}", kata, case, reference, par)

    def spec_flops(self, kata: Kata, case: Case) -> int:
        """The operations of the spec's matrix products; 0 where they can't be counted."""
        programs = (f"{kata.name}_spec",)
        question = Measure(_answer(kata), case, programs, self.chip(kata), ask_xla=False)
        answer = self._lines.trusted.answer(question)
        return answer.programs[0].products if isinstance(answer, Measured) else 0

    def measured(self, kata: Kata, case: Case) -> Measured:
        """What the programs of a kata take on the first chip at best. Raises BrokenKata."""
        found = self._measured(kata, case, SECONDS, ask_xla=False)
        if isinstance(found, Accident):
            raise BrokenKata(f"the solution's programs: {found.phrase}\n{found.message}")
        return found

    def baselines(self, kata: Kata, case: Case) -> Measured | Accident:
        """The same, with what XLA makes of each. Raises BrokenKata."""
        return self._measured(kata, case, XLA_SECONDS, ask_xla=True)

    def _measured(
        self, kata: Kata, case: Case, seconds: float, *, ask_xla: bool
    ) -> Measured | Accident:
        assert kata.key.predictions
        programs = kata.key.predictions.programs
        question = Measure(_answer(kata), case, programs, self.chip(kata), ask_xla)
        answer = self._lines.trusted.answer(question, seconds)
        if isinstance(answer, Problem):
            raise BrokenKata(f"the solution's programs: {_in_short(answer)}")
        return _expected(Measured, answer)

    # ---- the launch ----

    def boot(self, kata: Kata) -> None:
        """Have the process start that will trace the kata's launch; `eager`, the compiler too."""
        self._lines.bench.attempt(_attempt(kata))
        if self.eager and not kata.key.gpu:
            self._lines.compiling.warm(Warm(None, self.chips(kata), compiles=False))

    def begin(self, kata: Kata, reference: Reference, seconds: float | None) -> None:
        """Begin on what `attempt` will ask."""
        if kata.path not in self._stuck and kata.key.kind is not KataKind.TEST:
            question = self._trace_question(kata, reference)
            self._lines.attempting.ask(question, seconds)

    def attempt(
        self, kata: Kata, case: Case, reference: Reference, seconds: float | None
    ) -> Observation | Accident:
        """Trace and run the learner's launch, each within `seconds`; at production size, trace it.

        One hidden case that hangs is enough: of this kata's others nothing is asked.
        """
        if stuck := self._stuck.get(kata.path):
            return stuck
        answer = self._attempted(kata, case, reference, seconds)
        if isinstance(answer, Accident) and answer.stuck:
            self._stuck[kata.path] = answer
        return answer

    def clues(
        self,
        kata: Kata,
        case: Case,
        reference: Reference,
        observed: Observation,
        seconds: float | None,
    ) -> Clues:
        """Look closer at a launch whose results are wrong; nothing where that can't be had.

        What it makes of zeros in unwritten memory is of use only where NaN came of it.
        """
        traced = self._own_traced(kata, reference, seconds)
        if isinstance(traced, Accident) or observed.trace is None or kata.key.gpu:
            return Clues()
        calls = observed.trace.calls
        shares = TakeShares(_answer(kata), kata.name, case, reference.inputs, calls)
        self._lines.trusted.ask(shares)
        question = LookCloser(
            _attempt(kata),
            traced.trace,
            reference.inputs,
            self.mode,
            case.seed,
            self.chip(kata),
            any(map(holds_nan, observed.outputs)),
            eager_copies(case),
            kata.key.mesh,
        )
        looked = self._lines.runs(kata.key.mesh).answer(question, seconds)
        taken = self._lines.trusted.answer(shares)
        looked = looked if isinstance(looked, Looked) else Looked()
        return Clues(
            looked.walk,
            looked.with_zeros,
            taken.shares if isinstance(taken, Shares) else (),
            looked.padding,
        )

    def repeats(
        self, kata: Kata, case: Case, reference: Reference, seconds: float | None
    ) -> Repeats:
        """The learner's launch with its steps in another order on one core, and with another seed.

        Raises BrokenKata where the key's [random] names no seed.
        """
        assert kata.key.random
        try:
            others, changed = reseeded(reference, kata.key.random.seed, case.seed)
        except ValueError as error:
            raise BrokenKata(str(error)) from None
        traced = self._own_traced(kata, reference, seconds)
        if isinstance(traced, Accident):
            return Repeats(traced, traced, changed)
        run = RunTrace(
            *(_attempt(kata), kata.name, traced.trace, reference.inputs),
            *(self.mode, case.seed, self.chip(kata)),
        )
        again = dataclasses.replace(run, seed=case.seed + 1, cores=1)
        other_seed = dataclasses.replace(run, inputs=others)
        return Repeats(self._run(again, seconds), self._run(other_seed, seconds), changed)

    def _run(self, question: RunTrace, seconds: float | None) -> Observation | Accident:
        ran = _expected(RunResult, self._lines.running.answer(question, seconds))
        if isinstance(ran, Accident):
            return ran
        return Observation(ran.problem, ran.trace, outputs=ran.outputs, complaints=ran.complaints)

    def resembles(self, kata: Kata, case: Case, reference: Reference, agrees: Agrees) -> str:
        """The title of a known mistake whose results agree with those observed; else ""."""
        situation = Situation(
            _attempt(kata),
            _answer(kata),
            kata.key.mistakes,
            case,
            reference.inputs,
            self._trace(_answer(kata), kata, reference),
            self.mode,
        )
        return self._lines.recollection.first(situation, agrees)

    def own(
        self,
        kata: Kata,
        case: Case,
        reference: Reference,
        seconds: float | None,
        events: int = 0,
    ) -> OnChip | Accident:
        """The learner's launch on its way to the chips.

        `events` is how many single transfers and stalls its predicted schedule keeps.
        """
        traced = self._own_traced(kata, reference, seconds)
        return self._on_all_chips(kata, _attempt(kata), traced, reference, seconds, events)

    def ran_on_tpu(
        self, kata: Kata, case: Case, reference: Reference, seconds: float | None
    ) -> Observation | Accident | None:
        """The learner's launch, run on the TPU that is here; None where none is, and of katas whose
        values are not compared on one TPU."""
        key = kata.key
        elsewhere = key.gpu or key.mesh or key.random or key.tested or not key.kernel
        if self._tpu is None or elsewhere or case.production:
            return None
        traced = self._own_traced(kata, reference, seconds)
        if isinstance(traced, Accident):
            return traced
        question = self._run_question(kata, case, traced, reference)
        assert isinstance(question, RunTrace)
        answer = self._tpu.ran(question, seconds)
        if not isinstance(answer, RunResult):
            return answer if isinstance(answer, Accident) else None
        return Observation(answer.problem, answer.trace, outputs=answer.outputs)

    def own_on_gpu(
        self, kata: Kata, reference: Reference, seconds: float | None, compiled: bool = True
    ) -> OnGpu | Accident:
        """The learner's launch on its way to the GPU: lowered and, where wanted, compiled."""
        traced = self._own_traced(kata, reference, seconds)
        return self._on_gpu(kata, _attempt(kata), traced, reference, XLA_SECONDS, compiled)

    def ran_on_gpu(
        self, kata: Kata, case: Case, reference: Reference, lowered: Lowered
    ) -> GpuRun | None:
        """The learner's launch, run on the GPU that is here; None where none is.

        In the first case, also under compute-sanitizer.
        """
        if not (self._hardware and kata.key.gpu) or case.production:
            return None
        return self._ran_on_gpu(kata.id, kata, case, reference, lowered())

    def _ran_on_gpu(
        self, of: str, kata: Kata, case: Case, reference: Reference, launch: OnGpu | Accident
    ) -> GpuRun | None:
        if not self._hardware:
            return None
        learners = of == kata.id
        job = GpuJob(of, self.gpu_of(kata), launch, reference.inputs, case.seed, learners)
        return self._hardware.ran(job, looked_at=case.index == 0)

    def timed_on_gpu(
        self, kata: Kata, case: Case, reference: Reference, lowered: Lowered
    ) -> GpuTimes | None:
        """The same in turns with the solution's launch; None where there is no sign of a GPU."""
        if not (self._hardware and kata.key.gpu) or self._hardware.here().none:
            return None
        job = GpuJob(kata.id, self.gpu_of(kata), lowered(), reference.inputs, case.seed)
        return self._hardware.timed(job, self.par_on_gpu(kata, reference, compiled=False))

    def notes_of_hardware(self) -> tuple[str, ...]:
        """The notes since asked last on runs on the GPU and the TPU; they change no verdict."""
        used = (one for one in (self._hardware, self._tpu) if one)
        return tuple(note for one in used for note in one.take_notes())

    def follow(
        self, kata: Kata, case: Case, reference: Reference, seconds: float | None
    ) -> Followed | Accident:
        """The blocks of the learner's launch, step by step."""
        traced = self._own_traced(kata, reference, seconds)
        return self._followed(kata, _attempt(kata), traced, reference, seconds)

    # ---- questions and answers ----

    def _referred(self, kata: Kata, question: Refer) -> Reference:
        self._lines.turn_to(kata.id)
        match self._lines.trusted.answer(question):
            case Reference() as reference:
                return reference
            case Accident() as accident:
                raise BrokenKata(f"the solution's spec: {accident.phrase}\n{accident.message}")
            case Problem() as problem:
                raise BrokenKata(f"the solution's spec: {_in_short(problem)}")
            case answer:
                raise TypeError(f"a worker was asked for a reference and answered {answer!r}")

    def _par_traced(self, kata: Kata, reference: Reference) -> Traced | Accident:
        question = self._trace(_answer(kata), kata, reference)
        return _expected(Traced, self._lines.trusted.answer(question))

    def _trace_question(self, kata: Kata, reference: Reference) -> TraceLaunch:
        """The question to the process for what the file holds now."""
        source = _attempt(kata)
        self._lines.bench.attempt(source)
        return self._trace(source, kata, reference)

    def _trace(self, source: SourceFile, kata: Kata, reference: Reference) -> TraceLaunch:
        types = tuple(ArrayType(array.dtype, array.shape) for array in reference.inputs)
        what = (source, kata.name, types, reference.keywords, self.chip(kata))
        return TraceLaunch(*what, mesh=kata.key.mesh, gpu=self.gpu_of(kata))

    def _compile(
        self,
        kata: Kata,
        source: SourceFile,
        traced: Traced,
        reference: Reference,
        compiled: bool = True,
    ) -> CompileForGpu:
        gpu = self.gpu_of(kata)
        return CompileForGpu(source, traced.trace, reference.inputs, gpu, compiled)

    def _on_gpu(
        self,
        kata: Kata,
        source: SourceFile,
        traced: Traced | Accident,
        reference: Reference,
        seconds: float | None,
        compiled: bool = True,
    ) -> OnGpu | Accident:
        if isinstance(traced, Accident):
            return traced
        if traced.problem:
            return OnGpu(self.gpu_of(kata), traced.problem)
        question = self._compile(kata, source, traced, reference, compiled)
        return _expected(OnGpu, self._lines.compiling.answer(question, seconds))

    def _own_traced(
        self, kata: Kata, reference: Reference, seconds: float | None
    ) -> Traced | Accident:
        question = self._trace_question(kata, reference)
        return _expected(Traced, self._lines.attempting.answer(question, seconds))

    def _attempted(
        self, kata: Kata, case: Case, reference: Reference, seconds: float | None
    ) -> Observation | Accident:
        if kata.key.tested:
            return self._trials(kata, case, seconds)
        traced = self._own_traced(kata, reference, seconds)
        if isinstance(traced, Accident):
            return traced
        if traced.problem:
            return Observation(traced.problem, printed=traced.printed)
        question = self._run_question(kata, case, traced, reference)
        ran = _expected(RunResult, self._lines.runs(kata.key.mesh).answer(question, seconds))
        if isinstance(ran, Accident):
            return dataclasses.replace(ran, printed=traced.printed + ran.printed)
        return Observation(
            ran.problem,
            ran.trace,
            traced.broken_annotation,
            ran.outputs,
            ran.complaints,
            traced.printed + ran.printed,
            copy_faults=ran.copy_faults,
            device_faults=ran.device_faults,
            devices=devices_of(kata.key.mesh),
            gpu_faults=ran.gpu_faults,
            not_run=ran.not_run,
        )

    def _run_question(
        self, kata: Kata, case: Case, traced: Traced, reference: Reference
    ) -> RunTrace | ReadTrace:
        """At production size, and where the interpreter can't run it, a launch is only read."""
        launch = (_attempt(kata), kata.name, traced.trace, reference.inputs)
        gpu, mesh, chip = self.gpu_of(kata), kata.key.mesh, self.chip(kata)
        interpreted = kata.key.gpu is None or not kata.key.gpu.not_interpreted
        if (case.production and kata.key.kernel) or not interpreted:
            return ReadTrace(*launch, chip, mesh, gpu, followed=not case.production)
        how = (self.mode, case.seed, chip)
        return RunTrace(*launch, *how, eager=eager_copies(case), mesh=mesh, gpu=gpu)

    def _trials(self, kata: Kata, case: Case, seconds: float | None) -> Observation | Accident:
        """What the learner's test says of the kernels that it should tell apart."""
        assert kata.key.tested
        written = _attempt(kata)
        self._lines.bench.attempt(written)
        launch, chip = kata.key.tested.launch, self.chip(kata)
        subject = Subject(written, kata.name, _answer(kata), launch, case, chip, self.mode)
        try:
            found = self._lines.trials.of(subject, planted_of_case(kata.key, case), seconds)
        except BrokenPlanted as error:
            raise BrokenKata(str(error)) from None
        if isinstance(found, Accident):
            self._lines.bench.dismiss()
        return found

    def _on_all_chips(
        self,
        kata: Kata,
        source: SourceFile,
        traced: Traced | Accident,
        reference: Reference,
        seconds: float | None,
        events: int,
    ) -> OnChip | Accident:
        """What becomes of one launch on each chip; the first thing that goes wrong on the way."""
        if isinstance(traced, Accident):
            return traced
        if traced.problem:
            return OnChip(traced.problem)
        predictions, collectives = [], ()
        for chip in self.chips(kata):
            question = _predict(kata, source, traced, reference, chip, events)
            on_chip = _expected(OnChip, self._lines.compiling.answer(question, seconds))
            if isinstance(on_chip, Accident) or on_chip.problem:
                return on_chip
            predictions += on_chip.predictions
            collectives = on_chip.collectives
        return OnChip(None, tuple(predictions), collectives)

    def _followed(
        self,
        kata: Kata,
        source: SourceFile,
        traced: Traced | Accident,
        reference: Reference,
        seconds: float | None,
    ) -> Followed | Accident:
        if isinstance(traced, Accident):
            return traced
        if traced.problem:
            return Followed(traced.problem)
        question = Follow(source, traced.trace, reference.inputs, self.chip(kata), kata.key.mesh)
        return _expected(Followed, self._lines.compiling.answer(question, seconds))


def _attempt(kata: Kata) -> SourceFile:
    """The learner's file as it is now."""
    return SourceFile(str(kata.path), kata.content())


def _answer(kata: Kata) -> SourceFile:
    """The solution as it is now, by one name through whatever links."""
    try:
        return SourceFile(str(kata.solution.resolve()), kata.solution.read_bytes())
    except OSError as error:
        raise BrokenKata(f"the solution cannot be read: {error}") from None


def _refer(kata: Kata, case: Case, evaluated: bool) -> Refer:
    spec, results = kata.key.kind not in (KataKind.PREDICTIONS, KataKind.TEST), ()
    if asked := kata.key.predictions:
        results = (ArrayType("float32", (len(asked.programs), len(QUANTITIES))),)
    return Refer(_answer(kata), kata.name, case, evaluated, spec, results)


def _predict(
    kata: Kata, source: SourceFile, traced: Traced, reference: Reference, chip: str, events: int
) -> Predict:
    return Predict(source, traced.trace, reference.inputs, chip, events, kata.key.mesh)


def _expected(kind: type[T], answer: Answer | Accident) -> T | Accident:
    if not isinstance(answer, (kind, Accident)):
        raise TypeError(f"a worker was asked for its {kind.__name__} and answered {answer!r}")
    return answer


def _in_short(problem: Problem) -> str:
    where = f" (line {problem.place.line}: {problem.place.text})" if problem.place else ""
    return f"{problem.kind}: {problem.message}{where}"
