"""From a session's grades to the standing of katas, tracks and course."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from grader.exercise.catalog import Kata
from grader.exercise.key_tables import KeyProblem
from grader.verdict import Grade, NotJudged, State


@dataclass(frozen=True, slots=True)
class Standing:
    """A kata's place on the map: its worst hidden case decides."""

    kata: Kata
    state: State
    stars: int
    phrase: str  # why not more, in a few words
    case: int  # the hidden case that decides
    cases: int  # how many of its hidden cases ran
    seconds: float
    beside_par: float | None = None  # its cycles (else bytes) as a multiple of par's, at the worst
    notes: tuple[str, ...] = ()  # each once, whatever many cases have it
    not_judged: NotJudged | None = None  # the rung that could not be asked, and why
    whole: bool = True  # every hidden case ran

    @property
    def solved(self) -> bool:
        """Where nothing could be judged, nothing is known to be right."""
        unknown = self.not_judged is not None and not self.stars
        return self.state is State.PASSED and self.whole and not unknown


@dataclass(frozen=True, slots=True)
class TrackStandings:
    """The katas of one track that ran, and how many others it has."""

    name: str
    standings: tuple[Standing, ...]
    not_run: int

    @property
    def solved(self) -> int:
        return sum(standing.solved for standing in self.standings)


@dataclass(frozen=True, slots=True)
class SessionStandings:
    """The whole map: tracks of which something ran, and the kata to do next."""

    tracks: tuple[TrackStandings, ...]
    next: Standing | None

    @property
    def all(self) -> tuple[Standing, ...]:
        return tuple(itertools.chain.from_iterable(track.standings for track in self.tracks))


_WORST = (State.FAILED, State.TODO, State.PASSED)


def standings(katas: Sequence[Kata], grades: Iterable[Grade]) -> SessionStandings:
    """Count grades kata by kata, in the order of the katas."""
    by_kata: dict[str, list[Grade]] = {}
    for grade in grades:
        by_kata.setdefault(grade.kata, []).append(grade)
    tracks = []
    for name, members in itertools.groupby(katas, key=lambda kata: kata.track):
        of_track = list(members)
        ran = tuple(standing(kata, by_kata[kata.id]) for kata in of_track if kata.id in by_kata)
        if ran:
            tracks.append(TrackStandings(name, ran, len(of_track) - len(ran)))
    everything = [one for track in tracks for one in track.standings]
    return SessionStandings(tuple(tracks), _next(everything))


def standing(kata: Kata, grades: Sequence[Grade]) -> Standing:
    """How far one kata is, by the grades of its hidden cases."""
    worst = min(grades, key=lambda grade: (_WORST.index(grade.state), grade.stars, grade.case))
    # Beside a case that failed, one whose point could not be judged has none, and says nothing.
    failed = worst.state is State.FAILED
    stars = worst.stars if failed else min(grade.stars for grade in grades)
    so_far = _so_far(kata, grades)
    return Standing(
        kata=kata,
        state=worst.state,
        stars=0 if so_far and worst.state is State.PASSED else stars,
        phrase=_phrase(worst, stars, so_far),
        case=worst.case,
        cases=len(grades),
        seconds=sum(grade.seconds for grade in grades),
        beside_par=max(filter(None, map(_beside_par, grades)), default=None),
        notes=tuple(dict.fromkeys(note for grade in grades for note in grade.notes)),
        not_judged=worst.not_judged or next((g.not_judged for g in grades if g.not_judged), None),
        whole=not so_far,
    )


def _so_far(kata: Kata, grades: Sequence[Grade]) -> str:
    """How many of a kata's hidden cases ran; "" where all did."""
    ran = len({grade.case for grade in grades})
    try:
        count = kata.key.total
    except KeyProblem:
        return ""
    return "" if ran == count else f"{ran} of {count} hidden cases ran"


def _beside_par(grade: Grade) -> float | None:
    cost = grade.cost
    if cost and cost.cycles and cost.par_cycles:
        return cost.cycles / cost.par_cycles
    if cost and cost.bytes and cost.par_bytes:
        return cost.bytes / cost.par_bytes
    return None


def _phrase(worst: Grade, stars: int, so_far: str) -> str:
    if so_far and worst.state is State.PASSED:
        return f"{'★' * stars} so far: {so_far}"
    if worst.finding:
        return f"{worst.finding.check.title}: {worst.finding.phrase}"
    if worst.state is State.TODO:
        return "todo"
    return f"{worst.not_judged.check.title}: not judged" if worst.not_judged else ""


def _next(everything: list[Standing]) -> Standing | None:
    """The first failed kata; where none failed, the first that is to do.

    Of those that ran: whoever asks for some katas goes on with these. What is next in the whole
    course is `record.status.next_kata`; it runs nothing, and so knows of no failure.
    """
    for state in (State.FAILED, State.TODO):
        for standing in everything:
            if standing.state is state:
                return standing
    return None


def unasked(standings: SessionStandings) -> dict[NotJudged, list[Standing]]:
    """The rungs that could not be asked, each reason once, with the katas that it concerns."""
    found: dict[NotJudged, list[Standing]] = {}
    for standing in standings.all:
        if standing.not_judged:
            found.setdefault(standing.not_judged, []).append(standing)
    return found


def same_failure(first: Grade, second: Grade) -> bool:
    """Whether two cases of one kata fail the same check: the second need not be told in full."""
    return (
        first.kata == second.kata
        and first.finding is not None
        and second.finding is not None
        and first.finding.check is second.finding.check
    )
