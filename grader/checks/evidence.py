"""The evidence that checks judge: one attempt on one hidden case, and the names of its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from grader.exercise.answer_key import Key
from grader.exercise.targets import GpuTarget
from pallascope.model import (
    Accident,
    Array,
    BlockSample,
    Clues,
    GpuRun,
    GpuTimes,
    Hypothesis,
    Measured,
    Mode,
    Observation,
    OnGpu,
    OperationPlace,
    Problem,
    Reference,
    Repaired,
    Repeats,
)
from pallascope.tpu import OnChip


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """An attempt, its reference, and the kata's key. Functions ask workers when a rung needs it.

    `file` is the learner's, relative to the root. The launch is compiled for `chips`; its cost is
    judged on the first, and only if it `costs`. At `production` size, `attempt` only has the trace.
    `clues` looks closer when a result is wrong. `resembles` gives the title of a known mistake
    whose results satisfy a predicate, or ""; `is_mistake` says whether the learner's file has the
    text of a known mistake. `hypotheses` evaluates the spec with changes.
    `repaired` is the launch with one operation changed that makes it nearly right. `on_this_tpu`
    runs the launch on the TPU of this machine; it is None if there is none.
    """

    key: Key
    mode: Mode
    file: str
    attempt: Observation | Accident
    reference: Reference
    chips: tuple[str, ...]
    production: bool = False
    costs: bool = True
    clues: Callable[[], Clues]
    resembles: Callable[[Callable[[tuple[Array, ...]], bool]], str] = lambda _: ""
    is_mistake: Callable[[], bool] = lambda: False
    hypotheses: Callable[[], tuple[Hypothesis, ...]] = tuple
    repaired: Callable[[], Repaired] = Repaired
    on_this_tpu: Callable[[], Observation | Accident | None] = lambda: None

    def name_of(self, position: int) -> str:
        """The name in messages of a result that isn't a kernel's output."""
        if position < len(self.key.results):
            return self.key.results[position]
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
    def outputs(self) -> tuple[Array, ...]:
        return self.observed.outputs


@dataclass(frozen=True, slots=True, kw_only=True)
class TpuEvidence(Evidence):
    """The same for TPUs: `own_on_chips` and `par_on_chips` compile the learner's launch and par's.

    If results are random, `repeats` runs the launch again. If the kata asks for predictions,
    `measured` has the right numbers, and `baselines` the same with XLA's program for each.
    `own_sample` and `par_sample` compute some elements at production size, `exact_sample` those of
    par for the same inputs in float32; with `values_sizes`, all of them for these smaller sizes.
    `hidden_places` are the places of the operations of the learner's launch for each hidden case;
    None if one isn't traced.
    """

    own_on_chips: Callable[[], OnChip | Accident]
    par_on_chips: Callable[[], OnChip | Accident]
    repeats: Callable[[], Repeats] = lambda: Repeats(Observation(), Observation(), "")
    measured: Callable[[], Measured] = lambda: Measured(())
    baselines: Callable[[], Measured | Accident] = lambda: Measured(())
    own_sample: Callable[[], BlockSample | Accident] = BlockSample
    par_sample: Callable[[], BlockSample | Accident] = BlockSample
    exact_sample: Callable[[], BlockSample | Accident] = BlockSample
    values_sizes: Mapping[str, int] = field(default_factory=dict)
    hidden_places: Callable[[], tuple[frozenset[OperationPlace], ...]] = tuple

    @property
    def own(self) -> OnChip:
        """The learner's launch, lowered and compiled by a process that did not die."""
        own = self.own_on_chips()
        assert isinstance(own, OnChip)
        return own


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuEvidence(Evidence):
    """The same for GPUs: `lowered` lowers the learner's launch, and `compiled` also compiles it.

    `ran` and `par_ran` run the launches on the GPU of this machine, and `timed` times them; they
    return None without such a GPU. `lines` are those of the learner's file.
    """

    lowered: Callable[[], OnGpu | Accident] = lambda: OnGpu("")
    compiled: Callable[[], OnGpu | Accident] = lambda: OnGpu("")
    par_compiled: Callable[[], OnGpu | Accident] = lambda: OnGpu("")
    ran: Callable[[], GpuRun | None] = lambda: None
    par_ran: Callable[[], GpuRun | None] = lambda: None
    timed: Callable[[], GpuTimes | None] = lambda: None
    lines: tuple[str, ...] = ()

    @property
    def target(self) -> GpuTarget:
        assert isinstance(self.key.target, GpuTarget)
        return self.key.target
