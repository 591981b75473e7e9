"""Evaluates expected results in float64, and their sensitivity to rounding.

Expected results are the reference in float64. The rounding errors of float32 depend on how a kernel
orders its operations: scores of attention are as large as 150, so rounding one of them changes its
exponential by many roundings of the result. The sway of a result is how far it moves when the
inputs move by one rounding. It measures the sensitivity of a case, whatever the order of
operations.

Small moves of many inputs cancel in a sum, but the error of a sum in float32 does not. If the mean
of a row is 300 times its deviation, a small relative error of the mean is a large error of the
normalized row. So the reference's sums are perturbed, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from pallascope.kernels import longest_product
from pallascope.kernels.evaluator import Replacement, retraced
from pallascope.kernels.jaxprs import primitives
from pallascope.model import Array
from pallascope.tools.arrays import from_numpy

Values = np.ndarray[Any, Any]

DRAW_COUNT = 3
SUM = "reduce_sum"  # the primitive
ROUNDING = 2.0**-24  # half the distance from 1 to the next float32
#: The upper bound of a sway, relative to the largest element: a spec that chooses between inputs
#: may choose another one, and that difference isn't rounding.
MAX_SWAY = 2.0**-13


#: From inputs and a seed to the expected results in float64 and their sways.
ReferenceFunction = Callable[[Sequence[Values], int], tuple[tuple[Array, ...], tuple[float, ...]]]


def reference_function(
    reference: Callable[..., Any], like: Sequence[Values], keywords: Mapping[str, int]
) -> ReferenceFunction:
    """A function that evaluates a reference for inputs with the shapes and dtypes of `like`.

    The sway of a result is 0 for integers, else the larger of two differences of an element:

    - the largest difference in some draws with perturbed inputs, times the square root of the
      number of terms in the longest product, because a kernel rounds each term;
    - the difference if each sum of the reference has the error of a sum accumulated in float32.
    """
    with jax.enable_x64(True):
        inputs_64 = list(map(as_float64, like))
        traced = jax.make_jaxpr(lambda *xs: jax.tree.leaves(reference(*xs, **keywords)))(*inputs_64)
        exact = core.jaxpr_as_fun(traced)
        terms = longest_product(exact, inputs_64, {})
        program = sums_moved = jax.jit(exact)
        if SUM in primitives(traced.jaxpr):
            moved = retraced(traced, {SUM: _moved_sum(itertools.cycle((1, -1)))})
            sums_moved = jax.jit(core.jaxpr_as_fun(moved))

    def evaluate(
        inputs: Sequence[Values], seed: int
    ) -> tuple[tuple[Array, ...], tuple[float, ...]]:
        inputs_64, rng = list(map(as_float64, inputs)), np.random.default_rng(seed)
        draws = ([_perturbed(array, rng) for array in inputs_64] for _ in range(DRAW_COUNT))
        with jax.enable_x64(True):
            expected = list(map(np.asarray, program(*inputs_64)))
            drawn = [list(map(np.asarray, program(*draw))) for draw in draws]
            summed = list(map(np.asarray, sums_moved(*inputs_64)))
        by_result = zip(expected, summed, *drawn, strict=True)
        sways = tuple(
            max(_sway(exact, others, terms), _sway(exact, [moved], 1))
            for exact, moved, *others in by_result
        )
        return tuple(map(from_numpy, expected)), sways

    return evaluate


def _moved_sum(signs: Iterator[int]) -> Replacement:
    """A sum with the error of a sum of N terms in float32, with the next of `signs`.

    The error grows with the square root of N. It has a part relative to the sum (for equal terms)
    and a part relative to the root of the sum of squares (for terms that cancel).
    """

    def replacement(eqn: core.JaxprEqn, inputs: Sequence[Any]) -> Sequence[Any]:
        (x,), axes = inputs, eqn.params["axes"]
        total = jnp.sum(x, axis=axes, dtype=x.dtype)
        if not (_floating(x) and x.size):
            return [total]
        error = next(signs) * ROUNDING * (x.size / total.size) ** 0.5
        return [total + error * (jnp.abs(total) + jnp.sqrt(jnp.sum(x * x, axis=axes)))]

    return replacement


def as_float64(array: Values) -> Values:
    """A floating array in float64; any other as it is."""
    return array.astype(np.float64) if _floating(array) else array


def _floating(array: Values) -> bool:
    return bool(jax.numpy.issubdtype(array.dtype, np.floating))


def _perturbed(array: Values, rng: np.random.Generator) -> Values:
    """An array with each element moved by up to one rounding. Zeros and integers don't change."""
    if not _floating(array):
        return array
    return array * (1 + ROUNDING * rng.uniform(-1, 1, array.shape))


def _sway(exact: Values, others: Sequence[Values], terms: int) -> float:
    """The largest move of a finite element."""
    if not _floating(exact):
        return 0.0
    with np.errstate(invalid="ignore"):
        moves = np.stack([np.abs(other - exact) for other in others])
    scale = np.abs(exact[np.isfinite(exact)]).max(initial=0.0)
    return float(min(terms**0.5 * moves[np.isfinite(moves)].max(initial=0.0), MAX_SWAY * scale))
