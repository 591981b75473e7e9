"""Evidence: everything known about one kata on one hidden case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from grader.exercise.answer_key import Roundings, Slack
from grader.exercise.key_tables import (
    GpuTarget,
    KataKind,
    Predictions,
    Randomness,
)
from grader.verdict import Check
from pallascope.model import (
    Accident,
    Array,
    Clues,
    GpuRun,
    GpuTimes,
    Measured,
    Mode,
    Observation,
    OnGpu,
    Problem,
    Reference,
    Repeats,
)
from pallascope.tpu import OnChip


@dataclass(frozen=True, slots=True)
class Evidence:
    """One attempt beside its reference.

    `kernel` says whether the kata has one. `outside` are the primitives that the key allows around
    it, with floating numbers where `outside_floats`; `roundings` is how often a result may have
    been rounded. `clues` looks closer, once, when a result is wrong; `own_on_chips` and
    `par_on_chips` lower and compile the learner's launch and par's, once, when the values are
    right. `resembles` gives the title of a known mistake whose results satisfy a predicate, or "".
    `chips` are those to compile for; the cost is judged on the first, within `slack` of par,
    and only where it `costs`. With `par_required`, a kernel that misses par fails instead of
    missing a star. Without a kernel, what goes `block_by_block` may hold no array of all blocks.
    At `production` size nothing has been run, and there are no values to judge. `kind` is the
    kata's. Where `predictions` are asked for, `measured` says what is right, and `baselines` the
    same with what XLA makes of each program, asked where the case `costs`. Where results are
    `random`, `repeats` runs the launch again, once. With `full_precision`, no product of float32
    may be left to the default precision. `results` names them, where the key does. Of a launch for
    GPUs, `gpu` is what its key asks and `gpu_chip` the one to compile for; `lowered_for_gpu` lowers
    the learner's, and `own_on_gpu` and `par_on_gpu` compile, each once. `ran_on_gpu` and
    `par_ran_on_gpu` run them on a GPU that is here, and `timed_on_gpu` times them; they are None
    where no such GPU is. `lines` are those of the learner's file. `is_about` tells whether a check,
    or those behind it, judge what the kata is about.
    """

    mode: Mode
    file: str  # the learner's, relative to the root
    attempt: Observation | Accident
    reference: Reference
    kernel: bool
    outside: tuple[str, ...]
    roundings: Roundings
    clues: Callable[[], Clues]
    chips: tuple[str, ...]
    par_required: bool
    slack: Slack
    own_on_chips: Callable[[], OnChip | Accident]
    par_on_chips: Callable[[], OnChip | Accident]
    outside_floats: bool = False
    full_precision: bool = False
    results: tuple[str, ...] = ()
    production: bool = False
    costs: bool = True
    block_by_block: bool = False
    kind: KataKind = KataKind.KERNEL
    predictions: Predictions | None = None
    measured: Callable[[], Measured] = lambda: Measured(())
    baselines: Callable[[], Measured | Accident] = lambda: Measured(())
    resembles: Callable[[Callable[[tuple[Array, ...]], bool]], str] = lambda _: ""
    random: Randomness | None = None
    repeats: Callable[[], Repeats] = lambda: Repeats(Observation(), Observation(), "")
    gpu: GpuTarget | None = None
    gpu_chip: str = ""
    lowered_for_gpu: Callable[[], OnGpu | Accident] = lambda: OnGpu("")
    own_on_gpu: Callable[[], OnGpu | Accident] = lambda: OnGpu("")
    par_on_gpu: Callable[[], OnGpu | Accident] = lambda: OnGpu("")
    ran_on_gpu: Callable[[], GpuRun | None] = lambda: None
    par_ran_on_gpu: Callable[[], GpuRun | None] = lambda: None
    timed_on_gpu: Callable[[], GpuTimes | None] = lambda: None
    lines: tuple[str, ...] = ()
    is_about: Callable[[Check], bool] = lambda _: False

    def name_of(self, position: int) -> str:
        """What messages call a result that is no output of a kernel."""
        if position < len(self.results):
            return self.results[position]
        return f"result {position}" if len(self.reference.expected) > 1 else "the result"

    @property
    def observed(self) -> Observation:
        """The attempt of a process that did not die; rung `runs` has made sure of that."""
        assert isinstance(self.attempt, Observation)
        return self.attempt

    @property
    def problem(self) -> Problem | None:
        return self.attempt.problem if isinstance(self.attempt, Observation) else None

    @property
    def own(self) -> OnChip:
        """The learner's launch, lowered and compiled by a process that did not die."""
        own = self.own_on_chips()
        assert isinstance(own, OnChip)
        return own

    @property
    def outputs(self) -> tuple[Array, ...]:
        return self.observed.outputs
