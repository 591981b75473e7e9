"""What the checks are given: everything known of one kata on one hidden case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from grader.model import Accident, Array, Attempt, Clues, Mode, Problem, Reference


@dataclass(frozen=True, slots=True)
class Evidence:
    """One attempt beside its reference.

    `outside` are the primitives that the key allows around the kernel; `roundings` is how often a
    result may have been rounded to its dtype. `clues` looks closer, once, when a result is wrong.
    """

    mode: Mode
    file: str  # the learner's, relative to the root
    attempt: Attempt | Accident
    reference: Reference
    outside: tuple[str, ...]
    roundings: int
    clues: Callable[[], Clues]

    @property
    def observed(self) -> Attempt:
        """The attempt, where the process lived to tell (rung `runs` has made sure)."""
        assert isinstance(self.attempt, Attempt)
        return self.attempt

    @property
    def problem(self) -> Problem | None:
        return self.attempt.problem if isinstance(self.attempt, Attempt) else None

    @property
    def outputs(self) -> tuple[Array, ...]:
        return self.observed.outputs
