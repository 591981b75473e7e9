"""A trace whose Refs outside of kernels are turned into values, so that every kernel is one call.

A `pl.core_map`, and a `pl.kernel` that is given Refs, change arrays in place: what comes out of
them is no result of theirs. JAX itself rewrites them before it lowers: Refs become values, a
`core_map` becomes an `mpmd_map` that returns what it has written. The same is done here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core

from grader.kernels.jaxprs import array_struct, discharged, inner_jaxprs
from grader.kernels.pallas_params import KERNELS
from grader.kernels.retrace import retraced

_MADE = ("new_ref", "ref", "empty_ref", "run_state", "core_map")


def without_refs(closed: core.ClosedJaxpr) -> core.ClosedJaxpr:
    """The same program without Refs outside of its kernels; the trace itself where it has none.

    Within `for_chip`, as the trace was made. Raises UnsupportedJax, and what jax raises for a
    kernel that no mesh of this version takes.
    """
    if not any(name in _MADE for name in _outside(closed.jaxpr)):
        return closed
    values = discharged(closed)
    if "run_state" in _outside(values.jaxpr):
        values = retraced(values, {"run_state": _run_state})
    return values


def _outside(jaxpr: core.Jaxpr) -> Iterator[str]:
    """The names of the primitives outside of kernels."""
    for eqn in jaxpr.eqns:
        yield eqn.primitive.name
        if eqn.primitive.name not in KERNELS:
            for inner in inner_jaxprs(eqn):
                yield from _outside(inner)


def _run_state(eqn: core.JaxprEqn, inputs: Sequence[Any]) -> Sequence[Any]:
    """What the Refs of a `pl.run_state` hold at its end; some are given no value at its start."""
    given = iter(inputs)
    state = zip(eqn.params["is_initialized"], eqn.params["jaxpr"].invars, strict=True)
    values = [next(given) if has_value else _unwritten(var) for has_value, var in state]
    inner = without_refs(discharged(core.ClosedJaxpr(eqn.params["jaxpr"], ())))
    return core.jaxpr_as_fun(inner)(*values)


def _unwritten(ref: core.Var) -> jax.Array:
    struct = array_struct(ref)
    return jnp.empty(struct.shape, struct.dtype)
