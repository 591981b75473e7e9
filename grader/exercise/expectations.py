"""What must come back in a case, and how firmly: the spec in float64, and how far it moves.

What float32 rounds on the way to a result depends on how a kernel orders its operations: scores of
attention are as large as 150, so rounding one of them changes its exponential by a multiple of what
rounding the result does. How far the spec's results move when the inputs move by what float32
rounds says how much of this a case has in it, without a word about the order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from grader.kernels import longest_product
from grader.model import Array
from grader.tools.arrays import from_numpy

Values = np.ndarray[Any, Any]

DRAWS = 3
ROUNDING = 2.0**-24  # half the distance from 1 to the next float32
#: No result counts as moved further than this, relative to the largest element: a spec that
#: chooses between inputs may choose another one, and that is more than rounding.
FURTHEST = 2.0**-13


def expectations(
    spec: Callable[..., Any], inputs: Sequence[Values], keywords: Mapping[str, int], seed: int
) -> tuple[tuple[Array, ...], tuple[float, ...]]:
    """The spec's results in float64, and how far each moves if the inputs are rounded to float32.

    The second is the largest difference of an element in any of some draws, times the square root
    of the number of terms in the longest product, each of which a kernel rounds; 0 for integers.
    """
    terms = longest_product(spec, inputs, keywords)
    with jax.enable_x64(True):
        compiled = jax.jit(functools.partial(spec, **keywords))

        def results(arrays: Sequence[Values]) -> list[Values]:
            return [np.asarray(result) for result in jax.tree.leaves(compiled(*arrays))]

        wide = list(map(widened, inputs))
        expected = results(wide)
        drawn = np.random.default_rng(seed)
        moved = [results([_nudged(array, drawn) for array in wide]) for _ in range(DRAWS)]
    by_result = zip(expected, *moved, strict=True)
    sways = tuple(_sway(exact, others, terms) for exact, *others in by_result)
    return tuple(map(from_numpy, expected)), sways


def widened(array: Values) -> Values:
    """A floating array in float64; any other as it is."""
    return array.astype(np.float64) if _floating(array) else array


def _floating(array: Values) -> bool:
    return bool(jax.numpy.issubdtype(array.dtype, np.floating))


def _nudged(array: Values, drawn: np.random.Generator) -> Values:
    """Each element moved by up to one rounding, up or down; zeros and integers stay."""
    if not _floating(array):
        return array
    return array * (1 + ROUNDING * drawn.uniform(-1, 1, array.shape))


def _sway(exact: Values, others: Sequence[Values], terms: int) -> float:
    """The largest move of an element; infinities and NaN aside, as they stay what they are."""
    if not _floating(exact):
        return 0.0
    with np.errstate(invalid="ignore"):
        moves = np.stack([np.abs(other - exact) for other in others])
    scale = np.abs(exact[np.isfinite(exact)]).max(initial=0.0)
    return float(min(terms**0.5 * moves[np.isfinite(moves)].max(initial=0.0), FURTHEST * scale))
