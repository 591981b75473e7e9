"""Expected results and their sensitivity, and shapes of inputs.

Inputs as a file makes them; of production size, only those that anybody looks at.
Floating arrays of such sizes decide nothing on the way to a chip, nor do 8-bit integers, while
drawing and sending them takes seconds. Of these there are shapes and dtypes alone.

What must come back in a case, and how firmly: the spec in float64, and how far it moves.
What float32 rounds on the way to a result depends on how a kernel orders its operations: scores of
attention are as large as 150, so rounding one of them changes its exponential by a multiple of what
rounding the result does. How far the spec's results move when the inputs move by what float32
rounds says how much of this a case has in it, without a word about the order.

Small moves of many inputs cancel in their sum, and the error of a sum accumulated in float32 does
not. If the mean of a row is 300 times its deviation, an error of the mean that is small relative to
the mean is large relative to the normalized row. So the spec's sums are moved, too.

What a kata's random results may be, and how often: `NAME_outcomes` of the solution's file.
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

#: Where nothing is evaluated, floating arrays of more elements have no contents, and neither have
#: integers of 8 bits: no table is of these. The scores by which a router chooses experts are fewer.
LARGE = 1 << 18


def drawn(make: Callable[..., Sequence[Any]], key: Any, **keywords: Any) -> list[Any]:
    """The arrays that `make` returns for the key, compiled as a whole, for the next key, too.

    One by one, each operation would be compiled for each new shape, which takes three times as
    long. So they are where shapes, or Python's numbers, depend on what is drawn, or anything else
    can't be traced. Raises what `make` raises.
    """
    try:
        return list(jax.jit(make, static_argnames=tuple(keywords))(key, **keywords))
    except Exception:  # a TypeError of jax's, an IndexError, or what numpy makes of a tracer
        return list(make(key, **keywords))


def outlined(make: Callable[..., Sequence[Any]], key: Any, **keywords: Any) -> list[Any]:
    """What `make` makes of the key, and outlines of the floating arrays that cost most.

    These are the large ones, and what is computed from products of matrices. Neither is even
    computed, unless shapes depend on what is drawn.
    """
    whole = functools.partial(make, **keywords)
    try:
        traced, outlines = jax.make_jaxpr(whole, return_shape=True)(key)
    except jax.errors.JAXTypeError:
        with _cheap_draws(LARGE):
            return [_outline_of(a) if is_large(a.shape, a.dtype) else a for a in whole(key)]
    left_out = [
        is_large(outline.shape, outline.dtype) or (product and _is_floating(outline.dtype))
        for outline, product in zip(outlines, _by_products(traced), strict=True)
    ]
    if not any(left_out):
        return drawn(make, key, **keywords)

    def others(key: Any) -> list[Any]:
        return [array for array, out in zip(whole(key), left_out, strict=True) if not out]

    values = iter(jax.jit(others)(key))
    return [o if out else next(values) for o, out in zip(outlines, left_out, strict=True)]


def is_large(shape: tuple[int, ...], dtype: Any) -> bool:
    """Whether an array is one of those that have no contents."""
    return math.prod(shape) > LARGE and (_is_floating(dtype) or _is_narrow(dtype))


def is_outline(value: Any) -> bool:
    """Whether a value is shape and dtype alone."""
    return isinstance(value, jax.ShapeDtypeStruct)


def _is_floating(dtype: Any) -> bool:
    return bool(jax.numpy.issubdtype(dtype, np.floating))


def _is_narrow(dtype: Any) -> bool:
    """Whether these are integers of 8 bits or fewer; booleans may be a mask, which is a table."""
    integers = bool(jax.numpy.issubdtype(dtype, np.integer))
    return integers and np.dtype(dtype).itemsize == 1


def _outline_of(array: Any) -> Any:
    return jax.ShapeDtypeStruct(array.shape, array.dtype)


def _by_products(traced: core.ClosedJaxpr) -> list[bool]:
    """For each result of a trace, whether it is computed from a product of matrices."""
    count = len(traced.jaxpr.outvars)
    needed = (dce_jaxpr(traced.jaxpr, [n == own for n in range(count)])[0] for own in range(count))
    return ["dot_general" in primitives(jaxpr) for jaxpr in needed]


@contextlib.contextmanager
def _cheap_draws(most: int) -> Iterator[None]:
    """Normal draws of more than `most` elements repeat their first `most`, for as long as it runs.

    To draw 25 million takes more than a second.
    """
    usual = jax.random.normal
    setattr(jax.random, "normal", functools.partial(_repeated, usual, most))  # noqa: B010
    try:
        yield
    finally:
        setattr(jax.random, "normal", usual)  # noqa: B010


def _repeated(
    usual: Callable[..., Any], most: int, key: Any, shape: Sequence[int] = (), *args: Any, **kw: Any
) -> Any:
    if math.prod(shape) <= most:
        return usual(key, shape, *args, **kw)
    return jax.numpy.asarray(np.resize(usual(key, (most,), *args, **kw), tuple(shape)))


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
