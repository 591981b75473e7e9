"""The evidence that checks judge: one attempt on one hidden case, and the names of its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from grader.exercise.answer_key import Key
from grader.exercise.targets import GpuTarget
from pallascope.checks.launch_evidence import LaunchEvidence
from pallascope.model import (
    Accident,
    BlockSample,
    GpuRun,
    GpuTimes,
    Measured,
    Observation,
    OnGpu,
    OperationPlace,
    Repeats,
)
from pallascope.tpu import OnChip


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence(LaunchEvidence):
    """An attempt of a learner, with the kata's key.

    `file` is the learner's, relative to the root. The launch's cost is judged on the first of
    `chips`, and only if it `costs`. At `production` size, `attempt` only has the trace. par is the
    solution. `required_by` gives the fields that follow from the key.
    """

    key: Key
    production: bool = False
    costs: bool = True


def required_by(key: Key) -> dict[str, Any]:
    """The fields of an Evidence that follow from the key."""
    return {
        "key": key,
        "kernel": key.kernel,
        "result_names": key.results,
        "roundings": key.roundings,
        "full_precision": key.full_precision,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class TpuEvidence(Evidence):
    """The same for TPUs. `own_on_chips` and `par_on_chips` compile the learner's launch and par's.

    If results are random, `repeats` runs the launch again. If the kata asks for predictions,
    `measured` has the right numbers, and `baselines` the same with XLA's program for each.
    `own_sample` and `par_sample` compute some elements at production size, `exact_sample` those of
    par for the same inputs in float32; with `values_sizes`, all of them for these smaller sizes.
    `hidden_places` are the places of the operations of the learner's launch for each hidden case;
    None if one isn't traced.
    """

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
