"""JAX's operations are known by the object: another of the same name is none of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.extend import core
from jax.interpreters import mlir

from grader.kernels import TracedLaunch
from grader.model import ArrayType, Trace

X = np.ones((128, 128), np.float32)


def disguised(name: str) -> Callable[[Any], Any]:
    """A matrix product under another name."""
    primitive = core.Primitive(name)
    primitive.def_abstract_eval(lambda x: x)
    mlir.register_lowering(primitive, mlir.lower_fun(lambda x: x @ x, multiple_results=False))
    return primitive.bind


def stored(x: Any) -> Any:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        pl.when(x_ref[0, 0] > 0)(lambda: o_ref.__setitem__(..., jnp.sin(x_ref[...])))

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def traced(function: Callable[..., Any]) -> Trace:
    return TracedLaunch.of(function, (X,), {}).trace(__file__)


@pytest.mark.parametrize("name", ["reshape", "jit", "core_map", "pallas_call", "mine"])
@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["plain", "jitted"])
def test_a_primitive_of_ones_own_is_told_whatever_its_name(
    name: str, wrap: Callable[..., Any]
) -> None:
    trace = traced(wrap(disguised(name)))
    (told,) = trace.homemade
    assert told.name == name
    assert told.operands == (ArrayType("float32", (128, 128)),)
    assert [operation.name for operation in trace.outside] == [name]
    assert trace.calls == ()
    assert trace.from_kernel == (False,)


def test_the_line_that_binds_it_is_named() -> None:
    own = disguised("reshape")

    def launch(x: Any) -> Any:
        return own(x)

    (told,) = traced(launch).homemade
    assert told.line == launch.__code__.co_firstlineno + 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.sort(jnp.linalg.norm(x, axis=0)),
        lambda x: jnp.searchsorted(x[0], x[1]),
        lambda x: jnp.nonzero(x, size=4),
        lambda x: jnp.einsum("ij,jk->ik", x, x),
        lambda x: jax.grad(lambda y: jax.nn.relu(y).sum())(x),
        jax.checkpoint(lambda x: jnp.sin(x)),
        lambda x: jax.lax.scan(lambda c, r: (c + r, r), x[0], x),
        lambda x: jax.random.normal(jax.random.key(0), x.shape) + x,
        stored,
    ],
)
def test_what_jax_offers_is_jaxs(function: Callable[..., Any]) -> None:
    assert traced(function).homemade == ()
