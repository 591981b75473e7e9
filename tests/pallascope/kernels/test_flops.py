"""How many operations a jax.numpy function is counted to take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental.pallas import tpu as pltpu

from pallascope.kernels import flops, flops_by_dtypes
from pallascope.kernels.operation_counts import work_of

X = jax.ShapeDtypeStruct((4, 8), jnp.float32)
W = jax.ShapeDtypeStruct((8, 16), jnp.float32)


@pytest.mark.parametrize(
    ("function", "args", "count"),
    [
        (lambda x: x * 2 + x, (X,), 2 * 32),
        (lambda x, w: x @ w, (X, W), 2 * 4 * 8 * 16),
        (lambda x, w: jnp.einsum("ab,bc->ca", x, w), (X, W), 2 * 4 * 8 * 16),
        (lambda x: jnp.sum(x * x, axis=1), (X,), 2 * 32),
        (lambda x: x.astype(jnp.bfloat16).T.reshape(-1) > 0, (X,), 0),
        (lambda x: jax.jit(jnp.exp)(x), (X,), 32),
        (lambda x: jax.lax.scan(lambda c, r: (c + r, None), x[0], x)[0], (X,), 4 * 8),
    ],
    ids=["chain", "product", "einsum", "sum", "layout", "inner", "loop"],
)
def test_flops(function: Callable[..., Any], args: tuple[Any, ...], count: int) -> None:
    assert flops(function, args) == count


def test_products_alone() -> None:
    a, b = jnp.ones((8, 16)), jnp.ones((16, 4))

    def function(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.exp(a @ b) + 1

    assert flops(function, (a, b), products_alone=True) == 2 * 8 * 16 * 4
    assert flops(function, (a, b)) == 2 * 8 * 16 * 4 + 2 * 8 * 4
    assert flops(jnp.exp, (a,), products_alone=True) == 0


def test_products_are_told_apart_by_the_dtypes_before_conversions() -> None:
    """XLA multiplies int8 that a spec converts to int32 as int8."""
    x, w = (jax.ShapeDtypeStruct(shape, jnp.int8) for shape in ((4, 8), (16, 8)))

    def turned(w: jax.Array) -> jax.Array:
        return w.astype(jnp.int32).T

    def function(x: jax.Array, w: jax.Array, scale: jax.Array) -> jax.Array:
        unused = scale @ scale.T
        del unused
        whole = x.astype(jnp.int32) @ jax.jit(turned)(w)
        return whole.astype(jnp.float32) * scale @ jnp.ones((16, 2))

    products, others = flops_by_dtypes(function, (x, w, jax.ShapeDtypeStruct((4, 16), jnp.float32)))
    assert products == {("int8", "int8"): 2 * 4 * 8 * 16, ("float32", "float32"): 2 * 4 * 16 * 2}
    assert others == 4 * 16


def test_a_constraint_on_memory_takes_no_time() -> None:
    """JAX 0.12 has one around each Ref of a discharged kernel, also of fp8, which CPUs emulate."""

    def launch(x: jax.Array) -> jax.Array:
        return pltpu.with_memory_space_constraint(x, pltpu.VMEM)

    x = jax.ShapeDtypeStruct((1024, 512), jnp.float8_e4m3fn)
    assert work_of(jax.make_jaxpr(launch)(x).jaxpr) == 0
    assert work_of(jax.make_jaxpr(jnp.negative)(x).jaxpr) > 0
