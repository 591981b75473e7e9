"""What a set of samples is worth: pass@k for each star and fast_p, by track.

pass@k is the chance that of k samples of a task at least one has so many stars, estimated without
bias from n samples of which c have them: 1 - C(n - c, k) / C(n, k), on average over tasks. fast_p
is the part of the samples that are right and, as predicted, at least p times as fast as par, on
average over the tasks that ask for a kernel.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from grader.model import MOST_STARS

SPEEDS = (0.5, 0.8, 1.0)


@dataclass(frozen=True, slots=True)
class Scored:
    """One sample: stars, and how many times as fast as par (None: not known)."""

    task: str
    stars: int
    speed: float | None = None


@dataclass(frozen=True, slots=True)
class Scores:
    """Of one group of tasks. `passes` is by (stars, k), `fast` by p; None where nobody can say: too
    few samples of a task, or no kernel."""

    name: str
    tasks: int
    samples: int
    passes: Mapping[tuple[int, int], float | None]
    fast: Mapping[float, float | None]


def pass_at(k: int, samples: int, right: int) -> float:
    """The chance that one of k samples is right. Raises ValueError unless 1 <= k <= samples."""
    if not 1 <= k <= samples:
        raise ValueError(f"pass@{k} can't be estimated from {samples} samples")
    return 1.0 - math.comb(samples - right, k) / math.comb(samples, k)


def scores(name: str, scored: Iterable[Scored], ks: Sequence[int], kernels: set[str]) -> Scores:
    """The scores of a group. `kernels` are the tasks that ask for one."""
    by_task: dict[str, list[Scored]] = {}
    for one in scored:
        by_task.setdefault(one.task, []).append(one)
    asked = [group for task, group in by_task.items() if task in kernels]
    return Scores(
        name,
        len(by_task),
        sum(map(len, by_task.values())),
        {
            (stars, k): _passes(list(by_task.values()), stars, k)
            for stars in range(1, MOST_STARS + 1)
            for k in ks
        },
        {p: fmean(_fast(group, p) for group in asked) if asked else None for p in SPEEDS},
    )


def by_track(scored: Sequence[Scored], ks: Sequence[int], kernels: set[str]) -> list[Scores]:
    """The scores of each track, and of all."""
    tracks = sorted({_track(one) for one in scored}, key=_number)
    groups = [
        scores(track, [one for one in scored if _track(one) == track], ks, kernels)
        for track in tracks
    ]
    return [*groups, scores("all", scored, ks, kernels)] if len(groups) > 1 else groups


def _passes(groups: Sequence[Sequence[Scored]], stars: int, k: int) -> float | None:
    if not groups or min(map(len, groups)) < k:
        return None
    return fmean(pass_at(k, len(group), _right(group, stars)) for group in groups)


def _right(group: Sequence[Scored], stars: int) -> int:
    return sum(one.stars >= stars for one in group)


def _fast(group: Sequence[Scored], p: float) -> float:
    return fmean(bool(one.stars and one.speed and one.speed >= p) for one in group)


def _track(one: Scored) -> str:
    return one.task.partition("/")[0]


def _number(track: str) -> int:
    return int(track.partition("_")[0])
