"""What a kata's random results may be, and how often: `NAME_outcomes` of the solution's file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from grader.exercise.expectations import widened
from grader.model import Outcomes
from grader.tools.arrays import from_numpy


def outcomes_of(
    function: Callable[..., Any],
    inputs: Sequence[np.ndarray[Any, Any]],
    keywords: Mapping[str, int],
    shapes: Sequence[tuple[int, ...]],
) -> tuple[Outcomes | None, ...]:
    """The outcomes of each result of these shapes, by the function `NAME_outcomes`.

    It takes what the spec takes, floating arrays as float64, and returns a list: for each result
    (low, high, chance of high), which may be broadcast, or None where it is not random. Raises
    ValueError for any other.
    """
    with jax.enable_x64(True):
        found = function(*map(widened, inputs), **keywords)
        if not isinstance(found, list) or len(found) != len(shapes):
            raise ValueError(f"needs a list with an entry for each of {len(shapes)} results")
        return tuple(map(_outcomes, found, shapes))


def _outcomes(entry: Any, shape: tuple[int, ...]) -> Outcomes | None:
    if entry is None:
        return None
    if not isinstance(entry, tuple) or len(entry) != 3:
        raise ValueError("an entry is (low, high, chance of high), or None")
    low, high, chance = (
        np.broadcast_to(np.asarray(part, np.float64), shape).copy() for part in entry
    )
    if not ((chance >= 0) & (chance <= 1)).all():
        raise ValueError("a chance lies between 0 and 1")
    return Outcomes(from_numpy(low), from_numpy(high), from_numpy(chance))
