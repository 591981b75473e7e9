"""What must come back in a case, and how firmly: the spec in float64, and how far it moves.

What float32 rounds on the way to a result depends on how a kernel orders its operations: scores of
attention are as large as 150, so rounding one of them changes its exponential by a multiple of what
rounding the result does. How far the spec's results move when the inputs move by what float32
rounds says how much of this a case has in it, without a word about the order.

Small moves of many inputs cancel in their sum, and the error of a sum accumulated in float32 does
not. If the mean of a row is 300 times its deviation, an error of the mean that is small relative to
the mean is large relative to the normalized row. So the spec's sums are moved, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from grader.kernels import longest_product
from grader.kernels.jaxprs import primitives
from grader.kernels.retrace import Replacement, retraced
from grader.model import Array
from grader.tools.arrays import from_numpy

Values = np.ndarray[Any, Any]

DRAWS = 3
SUM = "reduce_sum"  # the primitive
ROUNDING = 2.0**-24  # half the distance from 1 to the next float32
#: No result counts as moved further than this, relative to the largest element: a spec that
#: chooses between inputs may choose another one, and that is more than rounding.
FURTHEST = 2.0**-13


#: What must come back for these inputs, in float64, and how far each result moves; by a seed.
Expectations = Callable[[Sequence[Values], int], tuple[tuple[Array, ...], tuple[float, ...]]]


def expectations(
    spec: Callable[..., Any], like: Sequence[Values], keywords: Mapping[str, int]
) -> Expectations:
    """A function that evaluates the spec for inputs with the shapes and dtypes of `like`.

    How far a result moves is the larger of two differences of an element, and 0 for integers:

    - the largest in any of some draws, in which the inputs are rounded to float32, times the square
      root of the number of terms in the longest product, each of which a kernel rounds;
    - that where each sum of the spec has the error of a sum accumulated in float32.
    """
    with jax.enable_x64(True):
        wide = list(map(widened, like))
        traced = jax.make_jaxpr(lambda *xs: jax.tree.leaves(spec(*xs, **keywords)))(*wide)
        exact = core.jaxpr_as_fun(traced)
        terms = longest_product(exact, wide, {})
        program = sums_moved = jax.jit(exact)
        if SUM in primitives(traced.jaxpr):
            moved = retraced(traced, {SUM: _moved_sum(itertools.cycle((1, -1)))})
            sums_moved = jax.jit(core.jaxpr_as_fun(moved))

    def evaluate(
        inputs: Sequence[Values], seed: int
    ) -> tuple[tuple[Array, ...], tuple[float, ...]]:
        wide, deck = list(map(widened, inputs)), np.random.default_rng(seed)
        draws = ([_nudged(array, deck) for array in wide] for _ in range(DRAWS))
        with jax.enable_x64(True):
            expected = list(map(np.asarray, program(*wide)))
            drawn = [list(map(np.asarray, program(*draw))) for draw in draws]
            summed = list(map(np.asarray, sums_moved(*wide)))
        by_result = zip(expected, summed, *drawn, strict=True)
        sways = tuple(
            max(_sway(exact, others, terms), _sway(exact, [moved], 1))
            for exact, moved, *others in by_result
        )
        return tuple(map(from_numpy, expected)), sways

    return evaluate


def _moved_sum(signs: Iterator[int]) -> Replacement:
    """A sum with the error of a sum of N terms in float32, up or down as the next sign says.

    It is relative to the sum, as where all terms are alike, and to the root of their squares, as
    where they cancel; and grows with the square root of N.
    """

    def replacement(eqn: core.JaxprEqn, inputs: Sequence[Any]) -> Sequence[Any]:
        (x,), axes = inputs, eqn.params["axes"]
        total = jnp.sum(x, axis=axes, dtype=x.dtype)
        if not (_floating(x) and x.size):
            return [total]
        error = next(signs) * ROUNDING * (x.size / total.size) ** 0.5
        return [total + error * (jnp.abs(total) + jnp.sqrt(jnp.sum(x * x, axis=axes)))]

    return replacement


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
