"""The evidence that checks judge: one run of a launch, and its expected results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pallascope.model import (
    Accident,
    Array,
    Clues,
    Hypothesis,
    Mode,
    Observation,
    Problem,
    Reference,
    Repaired,
    Roundings,
)
from pallascope.tpu import OnChip


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchEvidence:
    """A run of a launch and its reference. Functions do work that only some checks need.

    `file` is the launch's, as messages show it. The launch is compiled for `chips`.
    `clues` looks closer when a result is wrong. `resembles` gives the title of a known mistake
    whose results satisfy a predicate, or ""; `is_mistake` says whether the file has the text of a
    known mistake. `hypotheses` evaluates the reference with changes. `repaired` is the launch with
    one operation changed that makes it nearly right. `on_this_tpu` runs the launch on the TPU of
    this machine; it is None if there is none. `own_on_chips` compiles the launch, and
    `par_on_chips` another one that does the same, if there is one.

    `kernel`: the launch should have a kernel. `result_names` names the results if some aren't
    outputs of a kernel. Products of float32 need `full_precision`. `within` are a relative and an
    absolute tolerance, in the place of those that rounding explains. Unless `compared`, nothing is
    known about the right results.
    """

    mode: Mode
    file: str
    attempt: Observation | Accident
    reference: Reference
    chips: tuple[str, ...]
    kernel: bool = True
    result_names: tuple[str, ...] = ()
    roundings: Roundings = field(default_factory=Roundings)
    full_precision: bool = False
    within: tuple[float, float] | None = None
    compared: bool = True
    clues: Callable[[], Clues]
    resembles: Callable[[Callable[[tuple[Array, ...]], bool]], str] = lambda _: ""
    is_mistake: Callable[[], bool] = lambda: False
    hypotheses: Callable[[], tuple[Hypothesis, ...]] = tuple
    repaired: Callable[[], Repaired] = Repaired
    on_this_tpu: Callable[[], Observation | Accident | None] = lambda: None
    own_on_chips: Callable[[], OnChip | Accident] = lambda: OnChip(None)
    par_on_chips: Callable[[], OnChip | Accident] = lambda: OnChip(None)

    def name_of(self, position: int) -> str:
        """The name in messages of a result that isn't a kernel's output."""
        if position < len(self.result_names):
            return self.result_names[position]
        return f"result {position}" if len(self.reference.expected) > 1 else "the result"

    @property
    def observed(self) -> Observation:
        """The attempt of a process that did not die."""
        assert isinstance(self.attempt, Observation)
        return self.attempt

    @property
    def problem(self) -> Problem | None:
        return self.attempt.problem if isinstance(self.attempt, Observation) else None

    @property
    def outputs(self) -> tuple[Array, ...]:
        return self.observed.outputs
