"""A trace whose types are not what its equations make of them is no trace."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import pytest
from jax.extend import core

from pallascope.kernels.lowering import for_chip
from pallascope.kernels.serialization import SerializationError, checked
from tests.pallascope.support.sample_traces import NESTED, X, carried, doubling, traced
from tests.pallascope.support.tpu_kernels import launches


@pytest.mark.parametrize("name", NESTED)
def test_true_types(name: str) -> None:
    closed = carried(traced(NESTED[name], X))
    with for_chip("TPU v5 lite", 1):
        assert checked(closed) is closed


def test_true_types_of_every_kind_of_operand() -> None:
    function, args = launches()["matmul"]()
    closed = carried(traced(function, *args))
    with for_chip("TPU v5 lite", 1):
        assert checked(closed) is closed


def lying(jaxpr: Any) -> None:
    """Give the first result in a jaxpr another type than it has."""
    var = jaxpr.eqns[0].outvars[0]
    var.aval = var.aval.update(dtype=jnp.dtype("int32"))


@pytest.mark.parametrize("where", ["outside", "in the kernel"])
def test_a_type_that_is_a_lie(where: str) -> None:
    closed: core.ClosedJaxpr = traced(lambda x: doubling()(x + 1), X)
    lying(closed.jaxpr if where == "outside" else closed.eqns[-1].params["jaxpr"])
    with for_chip("TPU v5 lite", 1), pytest.raises(SerializationError, match="types do not fit"):
        checked(carried(closed))
