"""What the checks are given: everything known of one kata on one hidden case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from grader.exercise.keys import Roundings, Slack
from grader.model import Accident, Array, Clues, Mode, Observation, Problem, Reference
from grader.tpu import OnChip


@dataclass(frozen=True, slots=True)
class WayToChip:
    """The learner's launch beside par, both on their way to the same chips."""

    own: OnChip | Accident
    par: OnChip | Accident


@dataclass(frozen=True, slots=True)
class Evidence:
    """One attempt beside its reference.

    `kernel`: whether the kata is about one. `outside` are the primitives that the key allows around
    it; `roundings` is how often it may have rounded. `clues` looks closer, once, when a result is
    wrong; `way` lowers and compiles, once, when the values are right. `chips` are those to compile
    for; what it costs is judged on the first, within `slack` of par. With `par_required`, that is
    no matter of a star.
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
    way: Callable[[], WayToChip]

    @property
    def observed(self) -> Observation:
        """The attempt, where the process lived to tell (rung `runs` has made sure)."""
        assert isinstance(self.attempt, Observation)
        return self.attempt

    @property
    def problem(self) -> Problem | None:
        return self.attempt.problem if isinstance(self.attempt, Observation) else None

    @property
    def own(self) -> OnChip:
        """The learner's launch on its way to the chips, where the process lived to tell."""
        own = self.way().own
        assert isinstance(own, OnChip)
        return own

    @property
    def outputs(self) -> tuple[Array, ...]:
        return self.observed.outputs
