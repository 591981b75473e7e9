"""Draws a case's inputs; evaluates expected results in float64 and their sensitivity to rounding.

Expected results are the spec in float64. The rounding errors of float32 depend on how a kernel
orders its operations: scores of attention are as large as 150, so rounding one of them changes its
exponential by many roundings of the result. The sway of a result is how far it moves when the
inputs move by one rounding. It measures the sensitivity of a case, whatever the order of
operations.

Small moves of many inputs cancel in a sum, but the error of a sum in float32 does not. If the mean
of a row is 300 times its deviation, a small relative error of the mean is a large error of the
normalized row. So the spec's sums are perturbed, too.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from pallascope.kernels import longest_product
from pallascope.kernels.evaluator import Replacement, retraced
from pallascope.kernels.jax_internals import dce_jaxpr
from pallascope.kernels.jaxprs import primitives
from pallascope.model import Array, Outcomes
from pallascope.tools.arrays import from_numpy

#: In cases of production size, larger floating arrays and arrays of 8-bit integers have no
#: contents: drawing and sending them takes seconds, and the compiler doesn't need them. Tables are
#: never of these dtypes, and a router's scores are smaller.
LARGE = 1 << 18


def drawn(make: Callable[..., Sequence[Any]], key: Any, **keywords: Any) -> list[Any]:
    """The arrays that `make` returns for the key, compiled by jit.

    Without jit, each operation would be compiled for each new shape, which takes three times as
    long. It runs without jit only if it can't be traced, for example because shapes depend on drawn
    values. Raises the exceptions of `make`.
    """
    try:
        return list(jax.jit(make, static_argnames=tuple(keywords))(key, **keywords))
    except Exception:  # a TypeError from jax, an IndexError, or numpy's error for a tracer
        return list(make(key, **keywords))


def drawn_or_abstract(make: Callable[..., Sequence[Any]], key: Any, **keywords: Any) -> list[Any]:
    """The arrays that `make` returns for the key, with ShapeDtypeStructs for the costly ones.

    Costly are large arrays, and floating arrays computed from products of matrices. They aren't
    even computed, unless shapes depend on drawn values.
    """
    make_arrays = functools.partial(make, **keywords)
    try:
        traced, avals = jax.make_jaxpr(make_arrays, return_shape=True)(key)
    except jax.errors.JAXTypeError:
        with _repeating_draws(LARGE):
            return [_abstract_of(a) if is_large(a.shape, a.dtype) else a for a in make_arrays(key)]
    is_omitted = [
        is_large(aval.shape, aval.dtype) or (product and _is_floating(aval.dtype))
        for aval, product in zip(avals, _by_products(traced), strict=True)
    ]
    if not any(is_omitted):
        return drawn(make, key, **keywords)

    def make_rest(key: Any) -> list[Any]:
        return [
            array
            for array, omitted in zip(make_arrays(key), is_omitted, strict=True)
            if not omitted
        ]

    values = iter(jax.jit(make_rest)(key))
    return [o if omitted else next(values) for o, omitted in zip(avals, is_omitted, strict=True)]


def is_large(shape: tuple[int, ...], dtype: Any) -> bool:
    """Whether an array is so large that it gets no contents."""
    return math.prod(shape) > LARGE and (_is_floating(dtype) or _is_narrow(dtype))


def is_abstract(value: Any) -> bool:
    """Whether a value has only shape and dtype."""
    return isinstance(value, jax.ShapeDtypeStruct)


def _is_floating(dtype: Any) -> bool:
    return bool(jax.numpy.issubdtype(dtype, np.floating))


def _is_narrow(dtype: Any) -> bool:
    """Whether these are integers of 8 bits or fewer; booleans may be a mask, which is a table."""
    integers = bool(jax.numpy.issubdtype(dtype, np.integer))
    return integers and np.dtype(dtype).itemsize == 1


def _abstract_of(array: Any) -> Any:
    return jax.ShapeDtypeStruct(array.shape, array.dtype)


def _by_products(traced: core.ClosedJaxpr) -> list[bool]:
    """For each result of a trace, whether it is computed from a product of matrices."""
    count = len(traced.jaxpr.outvars)
    needed = (dce_jaxpr(traced.jaxpr, [n == own for n in range(count)])[0] for own in range(count))
    return ["dot_general" in primitives(jaxpr) for jaxpr in needed]


@contextlib.contextmanager
def _repeating_draws(count: int) -> Iterator[None]:
    """While the block runs, normal draws of more than `count` elements repeat their first `count`.

    Drawing 25 million elements takes more than a second.
    """
    normal = jax.random.normal
    setattr(jax.random, "normal", functools.partial(_repeated, normal, count))  # noqa: B010
    try:
        yield
    finally:
        setattr(jax.random, "normal", normal)  # noqa: B010


def _repeated(
    normal: Callable[..., Any],
    count: int,
    key: Any,
    shape: Sequence[int] = (),
    *args: Any,
    **kw: Any,
) -> Any:
    if math.prod(shape) <= count:
        return normal(key, shape, *args, **kw)
    return jax.numpy.asarray(np.resize(normal(key, (count,), *args, **kw), tuple(shape)))


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
    spec: Callable[..., Any], like: Sequence[Values], keywords: Mapping[str, int]
) -> ReferenceFunction:
    """A function that evaluates the spec for inputs with the shapes and dtypes of `like`.

    The sway of a result is 0 for integers, else the larger of two differences of an element:

    - the largest difference in some draws with perturbed inputs, times the square root of the
      number of terms in the longest product, because a kernel rounds each term;
    - the difference if each sum of the spec has the error of a sum accumulated in float32.
    """
    with jax.enable_x64(True):
        inputs_64 = list(map(as_float64, like))
        traced = jax.make_jaxpr(lambda *xs: jax.tree.leaves(spec(*xs, **keywords)))(*inputs_64)
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


def outcomes_of(
    function: Callable[..., Any],
    inputs: Sequence[np.ndarray[Any, Any]],
    keywords: Mapping[str, int],
    shapes: Sequence[tuple[int, ...]],
) -> tuple[Outcomes | None, ...]:
    """The outcomes of each result of these shapes, from the function `NAME_outcomes`.

    The function takes the spec's arguments, with floating arrays as float64, and returns a list:
    for each result (low, high, chance of high), which may be broadcast, or None if the result isn't
    random. Raises ValueError for anything else.
    """
    with jax.enable_x64(True):
        entries = function(*map(as_float64, inputs), **keywords)
        if not isinstance(entries, list) or len(entries) != len(shapes):
            raise ValueError(f"needs a list with an entry for each of {len(shapes)} results")
        return tuple(map(_outcomes, entries, shapes))


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
