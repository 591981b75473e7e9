"""How many terms the sums of a jax.numpy function have: they bound its rounding error."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import jax
from jax.extend import core

from grader.kernels.jaxprs import Shaped, inner_jaxprs

_PRODUCTS = ("dot_general", "conv_general_dilated")
_SUMS = ("reduce_sum", "reduce_prod", "cumsum", "cumprod", "cumlogsumexp")


def longest_sum(
    function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
) -> int:
    """How many terms the longest sum (or product) of a jax.numpy function has; 1 if it has none."""
    closed = jax.make_jaxpr(lambda *arrays: function(*arrays, **kwargs))(*args)
    return max(_sums(closed.jaxpr, (*_PRODUCTS, *_SUMS, "scatter-add")), default=1)


def longest_product(
    function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
) -> int:
    """The same of matrix products and convolutions alone."""
    closed = jax.make_jaxpr(lambda *arrays: function(*arrays, **kwargs))(*args)
    return max(_sums(closed.jaxpr, _PRODUCTS), default=1)


def _sums(jaxpr: core.Jaxpr, of: Sequence[str]) -> Iterator[int]:
    for eqn in jaxpr.eqns:
        terms_inside = [terms for inner in inner_jaxprs(eqn) for terms in _sums(inner, of)]
        turns = eqn.params["length"] if eqn.primitive.name == "scan" else 1  # each may add
        yield turns * max(terms_inside, default=1)
        if eqn.primitive.name in of:
            yield from _terms(eqn)


def _terms(eqn: core.JaxprEqn) -> Iterator[int]:
    """How many terms one equation adds up, if it does."""
    name, params = eqn.primitive.name, eqn.params
    avals = [var.aval for var in eqn.invars]
    shapes: list[tuple[int, ...]] = [a.shape if isinstance(a, Shaped) else () for a in avals]
    if name == "dot_general":
        (contracted, _), _ = params["dimension_numbers"]
        yield math.prod(shapes[0][axis] for axis in contracted)
    elif name in _SUMS:
        axes = params["axes"] if "axes" in params else (params["axis"],)
        yield math.prod(shapes[0][axis] for axis in axes)
    elif name == "conv_general_dilated":
        features = shapes[1][params["dimension_numbers"].rhs_spec[0]]
        yield math.prod(shapes[1]) // max(features, 1)
    elif name == "scatter-add":
        yield shapes[2][0] if shapes[2] else 1
