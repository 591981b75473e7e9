"""The standing of katas, tracks and course from a session's grades."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from grader.exercise.catalog import Kata
from grader.exercise.key_tables import KeyProblem
from grader.verdict import Grade, State
from pallascope.model import NotJudged


@dataclass(frozen=True, slots=True)
class Standing:
    """A kata's line on the map. Its worst hidden case decides."""

    kata: Kata
    state: State
    stars: int
    phrase: str  # the reason for missing stars, in a few words
    case: int  # the index of the worst hidden case
    cases: int  # the number of hidden cases that ran
    failed: int  # the number of hidden cases that failed
    seconds: float
    beside_par: float | None = None  # the worst case's cycles (else bytes) ÷ par's
    notes: tuple[str, ...] = ()  # without repetitions
    not_judged: NotJudged | None = None  # the first rung that could not be judged
    whole: bool = True  # every hidden case ran
    regions_done: int = 0  # while it is todo: the number of regions that are no longer the stub's

    @property
    def solved(self) -> bool:
        """Whether all cases passed, and something could be judged."""
        unknown = self.not_judged is not None and not self.stars
        return self.state is State.PASSED and self.whole and not unknown


@dataclass(frozen=True, slots=True)
class TrackStandings:
    """The katas of one track that ran, and the number of others."""

    name: str
    standings: tuple[Standing, ...]
    not_run: int

    @property
    def solved(self) -> int:
        return sum(standing.solved for standing in self.standings)


@dataclass(frozen=True, slots=True)
class SessionStandings:
    """The whole map: tracks with katas that ran, and the kata to do next."""

    tracks: tuple[TrackStandings, ...]
    next: Standing | None

    @property
    def all(self) -> tuple[Standing, ...]:
        return tuple(itertools.chain.from_iterable(track.standings for track in self.tracks))


_WORST_FIRST = (State.FAILED, State.TODO, State.PASSED)


def standings(katas: Sequence[Kata], grades: Iterable[Grade]) -> SessionStandings:
    """The standings of the katas that have grades, in the order of `katas`."""
    by_kata: dict[str, list[Grade]] = {}
    for grade in grades:
        by_kata.setdefault(grade.kata, []).append(grade)
    tracks = []
    for name, members in itertools.groupby(katas, key=lambda kata: kata.track):
        track_katas = list(members)
        track_standings = tuple(
            standing(kata, by_kata[kata.id]) for kata in track_katas if kata.id in by_kata
        )
        if track_standings:
            tracks.append(
                TrackStandings(name, track_standings, len(track_katas) - len(track_standings))
            )
    all_standings = [one for track in tracks for one in track.standings]
    return SessionStandings(tuple(tracks), _next_standing(all_standings))


def standing(kata: Kata, grades: Sequence[Grade]) -> Standing:
    """The standing of one kata, from the grades of its hidden cases."""
    worst = min(
        grades, key=lambda grade: (_WORST_FIRST.index(grade.state), grade.stars, grade.case)
    )
    # If a case failed, the stars of cases that could not be judged don't count.
    failed = worst.state is State.FAILED
    stars = worst.stars if failed else min(grade.stars for grade in grades)
    incomplete = _incomplete_phrase(kata, grades)
    return Standing(
        kata=kata,
        state=worst.state,
        stars=0 if incomplete and worst.state is State.PASSED else stars,
        phrase=_phrase(worst, stars, incomplete, kata),
        case=worst.case,
        cases=len(grades),
        failed=sum(grade.state is State.FAILED for grade in grades),
        seconds=sum(grade.seconds for grade in grades),
        beside_par=max(filter(None, map(_cost_ratio, grades)), default=None),
        notes=tuple(dict.fromkeys(note for grade in grades for note in grade.notes)),
        not_judged=worst.not_judged or next((g.not_judged for g in grades if g.not_judged), None),
        whole=not incomplete,
        regions_done=_regions_done(kata) if worst.state is State.TODO else 0,
    )


def _regions_done(kata: Kata) -> int:
    left, count = kata.regions_left()
    return count - len(left)


def _incomplete_phrase(kata: Kata, grades: Sequence[Grade]) -> str:
    """ "3 of 5 hidden cases ran"; "" if all ran."""
    ran = len({grade.case for grade in grades})
    try:
        count = kata.key.total
    except KeyProblem:
        return ""
    return "" if ran == count else f"{ran} of {count} hidden cases ran"


def _cost_ratio(grade: Grade) -> float | None:
    cost = grade.cost
    if cost and cost.cycles and cost.par_cycles:
        return cost.cycles / cost.par_cycles
    if cost and cost.bytes and cost.par_bytes:
        return cost.bytes / cost.par_bytes
    return None


def _phrase(worst: Grade, stars: int, incomplete: str, kata: Kata) -> str:
    if incomplete and worst.state is State.PASSED:
        return f"{'★' * stars} so far: {incomplete}"
    if worst.finding:
        return f"{worst.finding.check.title}: {worst.finding.phrase}"
    if worst.state is State.TODO:
        return _todo_phrase(kata)
    return f"{worst.not_judged.check.title}: not judged" if worst.not_judged else ""


def _todo_phrase(kata: Kata) -> str:
    """ "todo", and which regions are left if others are done."""
    left, count = kata.regions_left()
    if not left or len(left) == count:
        return "todo"
    lines = ", ".join(str(region.first) for region in left)
    return f"{count - len(left)} of {count} regions done; left: line {lines}"


def _next_standing(all_standings: list[Standing]) -> Standing | None:
    """The first failed kata of those that ran; if none failed, the first todo.

    For the next kata of the whole course see `record.status.next_kata`. It runs nothing, so it
    doesn't know which katas fail.
    """
    for state in (State.FAILED, State.TODO):
        for standing in all_standings:
            if standing.state is state:
                return standing
    return None


def not_judged_reasons(standings: SessionStandings) -> dict[NotJudged, list[Standing]]:
    """Each rung that could not be judged, with the katas that it concerns."""
    by_reason: dict[NotJudged, list[Standing]] = {}
    for standing in standings.all:
        if standing.not_judged:
            by_reason.setdefault(standing.not_judged, []).append(standing)
    return by_reason
