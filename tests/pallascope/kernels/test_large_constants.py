"""Large constants of a trace: named with their line, wherever they hide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

from pallascope.kernels import TracedLaunch
from pallascope.kernels.outside_kernels import MAX_CONSTANT_BYTES
from pallascope.model import ArrayType, Constant

X = np.ones((64, 128), np.float32)
TABLE = np.arange(64 * 128, dtype=np.float32).reshape(64, 128)
FEW = np.zeros(MAX_CONSTANT_BYTES // 4, np.int32)


def constants(function: Callable[..., Any]) -> tuple[Constant, ...]:
    return TracedLaunch.of(function, (X,), {}).trace(__file__).constants


def added(x: Any) -> Any:
    return x + TABLE


def looked_up(x: Any) -> Any:
    def step(total: Any, row: Any) -> tuple[Any, None]:
        return total + row * jnp.asarray(TABLE), None

    return jax.lax.scan(step, x, x[:, :1])[0]


def in_a_branch(x: Any) -> Any:
    return jax.lax.cond(x[0, 0] > 0, added, lambda y: y, x)


def to_a_kernel(x: Any) -> Any:
    def kernel(x_ref: Any, table_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] + table_ref[...]

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x, TABLE)


@pytest.mark.parametrize("function", [added, jax.jit(added), looked_up, in_a_branch, to_a_kernel])
def test_a_table_is_found(function: Callable[..., Any]) -> None:
    (found,) = constants(function)
    assert found.array == ArrayType("float32", (64, 128))
    assert found.size == TABLE.nbytes


def test_the_line_that_uses_it_first_is_named() -> None:
    (found,) = constants(added)
    assert found.line == added.__code__.co_firstlineno + 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + 1,
        lambda x: x[: len(FEW), 0].sum() + FEW,
        lambda x: x + jnp.arange(128, dtype=jnp.float32),
        lambda x: x + jnp.zeros_like(x),
    ],
    ids=["scalar", "few", "iota", "zeros"],
)
def test_what_is_small_or_computed_is_no_table(function: Callable[..., Any]) -> None:
    assert constants(function) == ()
