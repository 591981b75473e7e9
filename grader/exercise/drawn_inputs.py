"""Draws the inputs of a case; the outcomes of random results."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core

from pallascope.checks.expected_results import as_float64
from pallascope.kernels.jax_internals import dce_jaxpr
from pallascope.kernels.jaxprs import primitives
from pallascope.model import Outcomes
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
