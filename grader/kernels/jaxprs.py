"""Looking into jaxprs: what several readers of a trace share."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

TESTED = "0.10.2 and 0.12.0.1"
_SUMS = ("reduce_sum", "reduce_prod", "cumsum", "cumprod", "cumlogsumexp")


class UnsupportedJax(RuntimeError):
    """This version of jax keeps a needed internal elsewhere."""

    def __init__(self, what: str) -> None:
        super().__init__(f"jax {jax.__version__} has moved {what}; these work: {TESTED}")


def inner_jaxprs(eqn: Any) -> list[Any]:
    """The jaxprs among an equation's parameters: branches, loop bodies, called functions."""
    values = itertools.chain.from_iterable(
        value if isinstance(value, (tuple, list)) else (value,) for value in eqn.params.values()
    )
    inner = (getattr(value, "jaxpr", value) for value in values)
    return [jaxpr for jaxpr in inner if hasattr(jaxpr, "eqns") and hasattr(jaxpr, "invars")]


def primitives(jaxpr: Any) -> Iterator[str]:
    """The names of all primitives of a jaxpr, inner ones included, in program order."""
    for eqn in jaxpr.eqns:
        yield eqn.primitive.name
        for sub in inner_jaxprs(eqn):
            yield from primitives(sub)


def longest_sum(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> int:
    """How many terms the longest sum (or product) of a jax.numpy function has; 1 if it has none."""
    closed = jax.make_jaxpr(lambda *arrays: function(*arrays, **kwargs))(*args)
    return max(_sums(closed.jaxpr), default=1)


def _sums(jaxpr: Any) -> Iterator[int]:
    for eqn in jaxpr.eqns:
        inner = [terms for sub in inner_jaxprs(eqn) for terms in _sums(sub)]
        turns = eqn.params["length"] if eqn.primitive.name == "scan" else 1  # each may add
        yield turns * max(inner, default=1)
        shapes = [getattr(var.aval, "shape", ()) for var in eqn.invars]
        yield from _terms(eqn.primitive.name, eqn.params, shapes)


def _terms(name: str, params: dict[str, Any], shapes: list[tuple[int, ...]]) -> Iterator[int]:
    """How many terms one equation adds up, if it does."""
    if name == "dot_general":
        (contracted, _), _ = params["dimension_numbers"]
        yield int(np.prod([shapes[0][axis] for axis in contracted], initial=1))
    elif name in _SUMS:
        axes = params["axes"] if "axes" in params else (params["axis"],)
        yield int(np.prod([shapes[0][axis] for axis in axes], initial=1))
    elif name == "conv_general_dilated":
        features = shapes[1][params["dimension_numbers"].rhs_spec[0]]
        yield int(np.prod(shapes[1])) // max(features, 1)
    elif name == "scatter-add":
        yield shapes[2][0] if shapes[2] else 1


def memory_space(aval: Any) -> str:
    """The memory space that a Ref is declared to be in; "default" where none is named."""
    space = getattr(aval, "memory_space", None)
    return str(getattr(space, "value", space) or "default")
