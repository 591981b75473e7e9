"""Questions to the workers about one launch: its trace, run, compilation; the TPU of this machine.

`LaunchClient` traces and runs a launch. `TpuLaunchClient` also compiles it for TPUs and runs it on
the TPU of this machine; `grader/sandbox/gpu_runs.py` has the same for GPUs. A client sends each
question once. If a process dies over a question, the answer is an `Accident`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from grader.exercise.catalog import Kata
from grader.sandbox.known_mistakes import KnownMistakeRuns
from grader.sandbox.launcher import SandboxError
from grader.sandbox.messages import (
    Answer,
    EvaluateBlocks,
    Shares,
    Traced,
    TraceLaunch,
    WorkerRole,
    eager_copies,
)
from grader.sandbox.mutant_trials import MutantTrials
from grader.sandbox.request_queue import SECONDS, RequestQueue
from grader.sandbox.worker_pool import Worker, WorkerPool
from grader.verdict import Case, Device
from pallascope.model import (
    Accident,
    Array,
    ArrayType,
    Axes,
    BlockSample,
    Clues,
    Hypothesis,
    Mode,
    Observation,
    OperationPlace,
    Reference,
    Repaired,
    Repeats,
    SourceFile,
    mesh_size,
)
from pallascope.runs.questions import (
    FollowBlocks,
    InvestigateRun,
    Predict,
    ReadTrace,
    RepairRun,
    RunResult,
    RunTrace,
    SampleBlocks,
    TargetDevice,
    Warm,
)
from pallascope.tools.arrays import (
    drawn_like,
    from_numpy,
    holds_infinity,
    holds_nan,
    to_numpy,
    widened,
)
from pallascope.tpu import OnChip
from pallascope.tpu.pipeline_steps import LaunchMotion

T = TypeVar("T")
#: A queue keeps this many of its latest traces: each is made once for a chip, and used often.
TRACES = 8


class BrokenKata(Exception):
    """The solution or its key is broken, so no kernel can be graded against it."""


class WorkerQueues:
    """The questions in flight to the workers of a pool.

    The `kept` latest answers about solutions are cached. `killed` lists the answers that are
    missing because a process was killed from outside.
    """

    def __init__(self, pool: WorkerPool, kept: int = 0) -> None:
        self.pool = pool
        self._kata = ""
        self.killed: list[Accident] = []
        self.trusted = self._queue(WorkerRole.TRUSTED, max(kept, TRACES))
        self.attempting = self._queue(WorkerRole.ATTEMPTING, TRACES)
        self.running = self._queue(WorkerRole.RUNNING)
        self.meshed = self._queue(WorkerRole.MESHED)
        self.compiling = self._queue(WorkerRole.COMPILING, kept)
        self.known_mistakes = KnownMistakeRuns(self.trusted, self.runs)
        self.trials = MutantTrials(self.trusted, self.attempting, self.running, self.pool.dismiss)

    def _queue(self, post: WorkerRole, kept: int = 0) -> RequestQueue:
        return RequestQueue(lambda: self.pool.worker(post), kept, killed=self.killed)

    def runs(self, mesh: Axes) -> RequestQueue:
        """The queue of the process that runs launches for this mesh."""
        return self.meshed if mesh else self.running

    def turn_to(self, kata: str) -> None:
        """If this is another kata than before, replace the processes that have grown large."""
        if kata != self._kata:
            self._kata = kata
            self.pool.renew()

    def warm(self, chips: tuple[str, ...]) -> None:
        """Start and warm up processes for the next attempt. Raises SandboxError, Stopped.

        Also replaces processes that have grown large, while nobody waits for them.
        """
        self.pool.renew()
        self.pool.keep_spare(Warm())
        for queue, warm in (
            (self.running, Warm(self.pool.device.mode)),
            (self.compiling, Warm(None, chips)),
        ):
            queue.warm(warm)

    def drop_pending(self) -> None:
        """Forget the open questions of a stopped attempt, so that they aren't sent again.

        The trusted worker goes on, and its answers stay.
        """
        for queue in (self.attempting, self.running, self.meshed, self.compiling):
            queue.drop_pending()

    def part(self) -> None:
        """Drop the present file: its process and all of its answers.

        The answers about solutions stay. If the same file is graded again, it is imported again.
        Processes that have grown large are replaced.
        """
        self.pool.dismiss()
        self.pool.renew()
        self.attempting = self._queue(WorkerRole.ATTEMPTING, TRACES)
        self.trials = MutantTrials(self.trusted, self.attempting, self.running, self.pool.dismiss)


def learners_file(kata: Kata) -> SourceFile:
    """The current content of the learner's file."""
    return SourceFile(str(kata.path), kata.content())


def solution_file(kata: Kata) -> SourceFile:
    """The current content of the solution, with links resolved. Raises BrokenKata."""
    try:
        return SourceFile(str(kata.solution.resolve()), kata.solution.read_bytes())
    except OSError as error:
        raise BrokenKata(f"can't read the solution: {error}") from None


def expected(kind: type[T], answer: Answer | Accident) -> T | Accident:
    """The answer. Raises TypeError if it has another type."""
    if not isinstance(answer, (kind, Accident)):
        raise TypeError(f"a worker must answer a {kind.__name__}, and answered {answer!r}")
    return answer


@dataclass(frozen=True, eq=False)
class LaunchClient:
    """Asks about the launch of one file in one case, each question once.

    The launch is traced for the first of `chips`, and compiled for all. Each question about the
    learner's launch may take `seconds`. The file is the learner's, unless `solution` is set.
    """

    queues: WorkerQueues
    kata: Kata
    case: Case
    reference: Reference
    chips: tuple[str, ...]
    seconds: float | None = SECONDS
    events: int = 0  # single transfers and stalls that a predicted schedule keeps
    solution: bool = False
    _known: dict[str, Any] = field(default_factory=dict[str, Any], init=False)

    def _once(self, name: str, ask: Callable[[], T]) -> T:
        """The result of `ask`, which is called once for each name.

        `cached_property` doesn't work here: Python 3.11 computes it under a lock for all objects,
        so a kernel that hangs in one thread would block all others.
        """
        if name not in self._known:
            self._known[name] = ask()
        return self._known[name]

    @property
    def device(self) -> TargetDevice:
        """The device that the launch is traced for."""
        return TargetDevice(self.chips[0], self.kata.key.target.name, self.kata.key.mesh)

    @property
    def mode(self) -> Mode:
        return self.kata.key.target.mode(self.queues.pool.device.mode)

    @property
    def source(self) -> SourceFile:
        read = solution_file if self.solution else learners_file
        return self._once("source", lambda: read(self.kata))

    @property
    def trace_question(self) -> TraceLaunch:
        types = tuple(ArrayType(array.dtype, array.shape) for array in self.reference.inputs)
        launch = (self.source, self.kata.name, types, self.reference.keywords)
        predicts = self.kata.key.predictions is not None
        return TraceLaunch(*launch, self.device, predicts=predicts)

    @property
    def _tracer(self) -> RequestQueue:
        """The queue of the process that imports the file. A learner's file has its own process."""
        if self.solution:
            return self.queues.trusted
        self.queues.pool.attempt(self.source)
        return self.queues.attempting

    def begin_trace(self) -> None:
        """Start tracing, without waiting for the answer."""
        self._tracer.ask(self.trace_question, self.seconds)

    @property
    def traced(self) -> Traced | Accident:
        return self._once("traced", self._trace)

    def _trace(self) -> Traced | Accident:
        return expected(Traced, self._tracer.answer(self.trace_question, self.seconds))

    def begin_compiling(self) -> None:
        """Start compiling, without waiting for the answer; does nothing for some targets."""

    def compiled(self) -> Any:
        """The launch, compiled for the chips."""
        raise NotImplementedError

    def about(self, traced: Traced) -> tuple[SourceFile, bytes, tuple[Array, ...], TargetDevice]:
        """The first fields of each `TraceQuestion` about the launch."""
        return self.source, traced.trace, self.reference.inputs, self.device

    def run(self) -> Observation | Accident:
        """Trace and run the launch; at production size, only trace it."""
        traced = self.traced
        if isinstance(traced, Accident):
            return traced
        if traced.problem:
            return Observation(traced.problem, printed=traced.printed)
        queue, question = self.queues.runs(self.device.mesh), self._run_question(traced)
        ran = expected(RunResult, queue.answer(question, self.seconds))
        if isinstance(ran, Accident):
            return dataclasses.replace(ran, printed=traced.printed + ran.printed)
        return dataclasses.replace(
            _observation(ran),
            broken_annotation=traced.broken_annotation,
            printed=traced.printed + ran.printed,
            devices=mesh_size(self.device.mesh),
        )

    def hypotheses(self, observed: Observation) -> tuple[Hypothesis, ...]:
        """The spec's results for changed inputs, and with a changed operation."""
        about = solution_file(self.kata), self.kata.name, self.case, self.reference.inputs
        calls = observed.trace.calls if observed.trace else ()
        question = EvaluateBlocks(*about, calls, observed.outputs)
        found = self.queues.trusted.answer(question)
        return found.hypotheses if isinstance(found, Shares) else ()

    def _run_question(self, traced: Traced) -> RunTrace | ReadTrace:
        """The question of `run`. At production size, a kernel's trace is only read."""
        if self.case.production and self.kata.key.kernel:
            random = self.kata.key.random
            names, seed = self.reference.names, random and random.seed
            return ReadTrace(
                *self.about(traced),
                self.kata.name,
                seed=names.index(seed) if seed in names else None,
                alike=max(map(len, random.same), default=1) if random else 1,
            )
        eager = eager_copies(self.case)
        launch = (*self.about(traced), self.kata.name)
        return RunTrace(*launch, self.mode, self.case.seed, eager=eager, again=not self.solution)

    def clues(self, _observed: Observation) -> Clues:
        """More about a launch with wrong results; empty if nothing can be found."""
        return Clues()

    def on_this_tpu(self) -> Observation | Accident | None:
        """The launch's run on the TPU of this machine; None without such a run."""
        return None


def _observation(ran: RunResult) -> Observation:
    """A worker's result as an Observation, which has fields of the same names."""
    names = (field.name for field in dataclasses.fields(ran))
    return Observation(**{name: getattr(ran, name) for name in names})


class TpuRunner:
    """Runs launches on the TPU of this machine, in a process that starts with the first launch.

    If the TPU can't be used, it gives a note, and doesn't try again.
    """

    def __init__(self) -> None:
        self._pool: WorkerPool | None = None
        self._queue = RequestQueue(self._worker)
        self._hung: set[str] = set()
        self._why_not = ""
        self._notes: list[str] = []

    def ran(self, question: RunTrace, seconds: float | None) -> Answer | Accident | None:
        """The result of a launch that is compiled for the TPU.

        None if the TPU can't be used, or if a launch of the same file has hung on it.
        """
        if self._why_not or question.source.file in self._hung:
            return None
        question = dataclasses.replace(question, mode=Mode.COMPILED)
        try:
            answer = self._queue.answer(question, seconds)
        except SandboxError as error:
            self._why_not = str(error).splitlines()[-1]
            self._notes.append(f"this machine's TPU can't be used: {self._why_not}")
            self.close()
            return None
        if isinstance(answer, Accident) and answer.stuck:
            self._hung.add(question.source.file)
        return answer

    def take_notes(self) -> tuple[str, ...]:
        """The notes since the last call. They change no verdict."""
        notes, self._notes = tuple(self._notes), []
        return notes

    def _worker(self) -> Worker:
        if self._pool is None:
            self._pool = WorkerPool(Device("tpu", Mode.COMPILED))
        return self._pool.worker(WorkerRole.RUNNING)

    def close(self) -> None:
        """End the process, if it was started."""
        if self._pool is not None:
            self._pool.close()


@dataclass(frozen=True, eq=False)
class TpuLaunchClient(LaunchClient):
    """Asks about a launch for TPUs. `runner` runs it on the TPU of this machine."""

    runner: TpuRunner | None = None

    def begin_compiling(self) -> None:
        traced = self.traced
        for chip in self.chips:
            if isinstance(traced, Traced) and not traced.problem:
                self.queues.compiling.ask(self._predict(traced, chip))

    def _predict(self, traced: Traced, chip: str) -> Predict:
        source, trace, inputs, device = self.about(traced)
        on_chip = dataclasses.replace(device, chip=chip)
        return Predict(source, trace, inputs, on_chip, self.events)

    def compiled(self) -> OnChip | Accident:
        """The predictions for the launch on each chip, or the first problem."""
        traced = self.traced
        if isinstance(traced, Accident):
            return traced
        if traced.problem:
            return OnChip(traced.problem)
        predictions, collectives, cuts = [], (), ()
        for chip in self.chips:
            question = self._predict(traced, chip)
            on_chip = expected(OnChip, self.queues.compiling.answer(question, self.seconds))
            if isinstance(on_chip, Accident) or on_chip.problem:
                return on_chip
            predictions += on_chip.predictions
            collectives, cuts = on_chip.collectives, on_chip.cuts
        return OnChip(None, tuple(predictions), collectives, cuts)

    def followed(self) -> LaunchMotion | Accident:
        """The blocks of the launch, step by step."""
        traced = self.traced
        if isinstance(traced, Accident):
            return traced
        if traced.problem:
            return LaunchMotion(traced.problem)
        question = FollowBlocks(*self.about(traced))
        return expected(LaunchMotion, self.queues.compiling.answer(question, self.seconds))

    def block_sample(
        self, like: Reference, of_par: BlockSample | Accident | None = None, exact: bool = False
    ) -> BlockSample | Accident:
        """A few blocks of the launch's results at production size: all that are in par's sample.

        `like` is the same kata's reference at a hidden size: large inputs get contents that are
        drawn from its inputs. If `exact`, the launch gets narrower inputs in float32, with the same
        values. Samples of the solution are cached.
        """
        inputs, seed = self.reference.inputs, self.case.seed
        contents = tuple(
            Array(own.dtype, (0,), b"") if own.data else drawn_like(other, own.dtype, seed + at)
            for at, (own, other) in enumerate(zip(inputs, like.inputs, strict=True))
        )
        launch = self
        if exact:
            contents, inputs = tuple(map(widened, contents)), tuple(map(widened, inputs))
            reference = dataclasses.replace(self.reference, inputs=inputs)
            launch = dataclasses.replace(self, reference=reference)
        traced = launch.traced
        if isinstance(traced, Accident) or traced.problem:
            return BlockSample((), "the launch can't be traced")
        known = of_par.results if isinstance(of_par, BlockSample) else ()
        targets = max((max(result.targets, 1) for result in known), default=0)
        question = SampleBlocks(*launch.about(traced), contents, seed, targets)
        mesh = self.device.mesh
        queue = self.queues.meshed if mesh else self.queues.compiling
        return expected(BlockSample, queue.answer(question, self.seconds, keep=self.solution))

    def places(self) -> tuple[OperationPlace, ...] | None:
        """The places of operations of the launch in the file; None if it isn't traced."""
        traced = self.traced
        if isinstance(traced, Accident) or traced.problem:
            return None
        question = ReadTrace(*self.about(traced), self.kata.name)
        read = self.queues.compiling.answer(question, self.seconds)
        return read.trace.places if isinstance(read, RunResult) and read.trace else None

    def clues(self, observed: Observation) -> Clues:
        """More about a launch with wrong results; empty if nothing can be found.

        It runs with zeros in unwritten memory only if a result contains NaN.
        """
        traced = self.traced
        if isinstance(traced, Accident) or observed.trace is None:
            return Clues()
        kata, case, inputs = self.kata, self.case, self.reference.inputs
        calls = observed.trace.calls
        shares = EvaluateBlocks(solution_file(kata), kata.name, case, inputs, calls)
        self.queues.trusted.ask(shares)
        with_zeros, eager = any(map(holds_nan, observed.outputs)), eager_copies(case)
        infinite = not with_zeros and any(map(holds_infinity, observed.outputs))
        launch = self.about(traced)
        question = InvestigateRun(*launch, self.mode, case.seed, with_zeros, eager, infinite)
        looked = self.queues.runs(self.device.mesh).answer(question, self.seconds)
        taken = self.queues.trusted.answer(shares)
        clues = looked if isinstance(looked, Clues) else Clues()
        shares = taken.shares if isinstance(taken, Shares) else ()
        return dataclasses.replace(clues, shares=shares)

    def repaired(self, redrawn: Callable[[], Reference]) -> Repaired:
        """The results with one operation changed, if they are nearly right then.

        They have to be right for the `redrawn` inputs as well, if the launch's trace is for both.
        """
        traced, case = self.traced, self.case
        if isinstance(traced, Accident) or self.mode is not Mode.STRICT:
            return Repaired()
        launch, expected = self.about(traced), self.reference.expected
        question = RepairRun(*launch, self.mode, case.seed, expected, eager_copies(case))
        repaired = self._repaired(question)
        if not repaired.change:
            return repaired
        other, change = redrawn(), (repaired.change, repaired.line)
        if other.keywords != self.reference.keywords:
            return repaired
        again = dataclasses.replace(
            question, inputs=other.inputs, expected=other.expected, change=change
        )
        return repaired if self._repaired(again).change else Repaired()

    def _repaired(self, question: RepairRun) -> Repaired:
        repaired = self.queues.runs(self.device.mesh).answer(question, self.seconds)
        return repaired if isinstance(repaired, Repaired) else Repaired()

    def repeats(self) -> Repeats:
        """Run the launch with its steps in another order on one core, and with another seed.

        Raises BrokenKata if the key's [random] names no seed of the spec.
        """
        random, case = self.kata.key.random, self.case
        assert random
        try:
            others, changed = reseeded(self.reference, random.seed, case.seed)
        except ValueError as error:
            raise BrokenKata(str(error)) from None
        traced = self.traced
        if isinstance(traced, Accident):
            return Repeats(traced, traced, changed)
        run = RunTrace(*self.about(traced), self.kata.name, self.mode, case.seed)
        again = dataclasses.replace(run, seed=case.seed + 1, cores=1)
        other_seed = dataclasses.replace(run, inputs=others)
        return Repeats(self._repeated(again), self._repeated(other_seed), changed)

    def _repeated(self, question: RunTrace) -> Observation | Accident:
        ran = expected(RunResult, self.queues.running.answer(question, self.seconds))
        return ran if isinstance(ran, Accident) else _observation(ran)

    def on_this_tpu(self) -> Observation | Accident | None:
        """The launch's run on the TPU of this machine; None if there is no TPU.

        Also None for katas whose values can't be compared on a single TPU.
        """
        key = self.kata.key
        elsewhere = key.mesh or key.random or key.tested or not key.kernel
        if self.runner is None or elsewhere or self.case.production:
            return None
        traced = self.traced
        if isinstance(traced, Accident):
            return traced
        question = self._run_question(traced)
        assert isinstance(question, RunTrace)
        answer = self.runner.ran(question, self.seconds)
        if not isinstance(answer, RunResult):
            return answer if isinstance(answer, Accident) else None
        return Observation(answer.problem, answer.trace, outputs=answer.outputs)


def reseeded(reference: Reference, name: str, word: int) -> tuple[tuple[Array, ...], str]:
    """The inputs with one word of the seed `name` raised by one, and a description of the change.

    `word` is taken modulo the seed's size. Raises ValueError if the spec has no such integers.
    """
    if name not in reference.names:
        raise ValueError(f"[random] names {name!r}, but the spec takes no such array")
    position = reference.names.index(name)
    seed = to_numpy(reference.inputs[position]).copy()
    if not np.issubdtype(seed.dtype, np.integer) or not seed.size:
        raise ValueError(f"[random] names {name!r}, which holds no integers")
    at = word % seed.size
    before = int(seed.flat[at])
    after = before + 1 if before < np.iinfo(seed.dtype).max else np.iinfo(seed.dtype).min
    seed.flat[at] = after
    inputs = list(reference.inputs)
    inputs[position] = from_numpy(seed)
    index = ", ".join(str(int(i)) for i in np.unravel_index(at, seed.shape))
    return tuple(inputs), f"{name}[{index}] = {after} instead of {before}"
