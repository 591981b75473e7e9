"""Integers of fewer than 32 bits in a kernel's body: where it begins to compute with them."""

from __future__ import annotations

from collections.abc import Iterator

import jax.numpy as jnp
from jax.extend import core

from grader.kernels.jaxprs import inner_jaxprs
from grader.kernels.source_lines import line_in
from grader.model import Narrow

#: What moves values, or makes others of them, and computes nothing.
_NO_WORK = ("get", "load", "masked_load", "swap", "convert_element_type")


def narrow_integers(kernel: core.Jaxpr, file: str) -> tuple[Narrow, ...]:
    """Each such dtype, inner jaxprs included, with the first line of `file` that computes in it."""
    found: dict[str, Narrow] = {}
    for eqn in _computing(kernel):
        for var in eqn.outvars:
            dtype = getattr(var.aval, "dtype", None)
            if dtype is None or not jnp.issubdtype(dtype, jnp.integer):
                continue
            if jnp.iinfo(dtype).bits < 32 and dtype.name not in found:
                found[dtype.name] = Narrow(dtype.name, line_in(eqn, file))
    return tuple(found.values())


def _computing(jaxpr: core.Jaxpr) -> Iterator[core.JaxprEqn]:
    for eqn in jaxpr.eqns:
        if eqn.primitive.name not in _NO_WORK:
            yield eqn
        for inner in inner_jaxprs(eqn):
            yield from _computing(inner)
