"""What is known of one submission once it is graded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from grader.model import MOST_STARS, Conditions, Cost, Finding, Grade, NotJudged, State
from grader.tools import codec


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict on one submission: that of its worst hidden case, as on pytest's map.

    `grades` has one for each hidden case, in order. `finding` is what the worst case was told, None
    where nothing is left to say; `not_judged` the first rung that could not be asked here, for want
    of libtpu for example: stars stop below it. `blob` is git's id of the text. `beside_par` is its
    predicted cycles (bytes from and to HBM where there are no cycles) as a multiple of the
    solution's, at the worst case; None where no launch was compared. `versions` are pairs of
    package and version.
    """

    kata: str
    seed: int
    state: State
    stars: int
    finding: Finding | None
    grades: tuple[Grade, ...]
    blob: str
    seconds: float
    conditions: Conditions
    versions: tuple[tuple[str, str], ...]
    not_judged: NotJudged | None = None
    beside_par: float | None = None

    @property
    def accident(self) -> bool:
        """Whether a process was killed from outside while a hidden case was judged, or the grader
        itself failed: graded again, it may come out otherwise."""
        return any(grade.accident for grade in self.grades)

    @property
    def cost(self) -> Cost | None:
        """Bytes and cycles beside par's, of the last hidden case that has any."""
        return next((grade.cost for grade in reversed(self.grades) if grade.cost), None)

    @property
    def speed(self) -> float | None:
        """How many times as fast as par it is predicted to be; None where that isn't known."""
        return 1 / self.beside_par if self.beside_par else None

    def as_dict(self) -> dict[str, Any]:
        """All of it in values that JSON has, with `reward`, `speed`, `cost` and `accident`."""
        more = {"reward": self.reward(), "speed": self.speed, "cost": self.cost}
        more |= {"accident": self.accident}
        return codec.to_builtins(self) | {name: codec.to_builtins(of) for name, of in more.items()}

    def reward(self) -> float:
        """One number from 0 to 1.

        0 for what is wrong or still to do, 1/3 for right results (★), 2/3 for a kernel that a TPU
        takes (★★), and from there up to 1 by par's cycles ÷ its own. Where no launch is compared,
        as in katas without a kernel, ★★★ are 1.
        """
        if self.stars < MOST_STARS - 1:
            return self.stars / MOST_STARS
        unknown = float(self.stars == MOST_STARS)
        part = unknown if self.speed is None else min(1.0, self.speed)
        return (MOST_STARS - 1 + part) / MOST_STARS
