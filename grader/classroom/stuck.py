"""What a class does not understand: katas that students have tried and not solved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from grader.classroom.places import Place, Standing
from grader.record.status import FileState

_TRIED = (FileState.SOLVED, FileState.CHANGED, FileState.EDITED)


@dataclass(frozen=True, slots=True)
class Stuck:
    """One kata: how many have tried it, and who has never solved what they tried."""

    kata: str
    tried: int
    students: tuple[str, ...]

    @property
    def share(self) -> float:
        """Of those who have tried it, 0 to 1."""
        return len(self.students) / self.tried


def stuck(standings: Sequence[Standing]) -> list[Stuck]:
    """Katas that somebody is stuck at: those with the most students first, then in order."""
    found = [_at(column, standings) for column in zip(*(s.places for s in standings), strict=True)]
    return sorted((one for one in found if one.students), key=lambda one: -len(one.students))


def _at(places: Iterable[Place], standings: Sequence[Standing]) -> Stuck:
    column = list(zip(standings, places, strict=True))
    return Stuck(
        column[0][1].kata,
        sum(place.state in _TRIED for _, place in column),
        tuple(s.student for s, place in column if place.state is FileState.EDITED),
    )
