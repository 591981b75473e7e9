"""Inputs as a file makes them; of production size, only those that anybody looks at.

Floating arrays of such sizes decide nothing on the way to a chip, nor do 8-bit integers, while
drawing and sending them takes seconds. Of these there are shapes and dtypes alone.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core

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
    products: set[int] = set()
    for eqn in traced.jaxpr.eqns:
        if _multiplies(eqn) or any(id(var) in products for var in eqn.invars):
            products |= set(map(id, eqn.outvars))
    return [id(var) in products for var in traced.jaxpr.outvars]


def _multiplies(eqn: core.JaxprEqn) -> bool:
    """Whether an equation is a product of matrices, or has one inside."""
    if eqn.primitive.name == "dot_general":
        return True
    inner = (getattr(param, "jaxpr", None) for param in eqn.params.values())
    return any(_multiplies(each) for jaxpr in inner if jaxpr for each in jaxpr.eqns)


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
