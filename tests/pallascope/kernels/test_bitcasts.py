"""What is called a bitcast is one for libtpu, and what moves bytes is not called so."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl

from pallascope.kernels import TracedLaunch, for_chip
from pallascope.tpu import libtpu
from pallascope.tpu.chips import named

V5E = named("v5e")
Function = Callable[[Any], Any]

FREE: dict[str, tuple[Function, tuple[int, ...]]] = {
    "leading dimensions merged": (lambda x: x.reshape(6, 16, 256), (2, 3, 16, 256)),
    "rows split": (lambda x: x.reshape(4, 32, 256), (128, 256)),
    "rows merged": (lambda x: x.reshape(128, 384), (4, 32, 384)),
    "a leading dimension added": (lambda x: x[None], (32, 256)),
    "a leading dimension taken": (lambda x: x[0], (1, 32, 256)),
    "leading ones moved": (lambda x: x.transpose(1, 0, 2, 3), (1, 4, 16, 256)),
    "a vector as rows": (lambda x: x.reshape(-1, 128), (32 * 128,)),
}
MOVES: dict[str, tuple[Function, tuple[int, ...]]] = {
    "columns split": (lambda x: x.reshape(32, 2, 128), (32, 256)),
    "a matrix transposed": (lambda x: x.T, (256, 128)),
    "a square transposed": (lambda x: x.T, (256, 256)),
    "leading dimensions swapped": (lambda x: x.transpose(1, 0, 2, 3), (4, 2, 16, 256)),
    "a vector as a column": (lambda x: x[:, None], (4096,)),
    "an odd vector as a row": (lambda x: x[None], (300,)),
    "part of the rows": (lambda x: x[:8], (32, 256)),
    "rows repeated": (lambda x: jnp.broadcast_to(x, (4, 256)), (1, 256)),
}
DTYPES = pytest.mark.parametrize("dtype", ["float32", "bfloat16"])


def around(change: Function) -> Function:
    """A kernel that copies what the change makes."""

    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...]

    def launch(x: Any) -> Any:
        made = change(x)
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(made.shape, made.dtype))(made)

    return launch


def outside(change: Function, shape: tuple[int, ...], dtype: str) -> list[str]:
    given = jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))
    with for_chip(V5E.kind, V5E.cores):
        return [one.name for one in TracedLaunch.of(around(change), [given], {}).trace().outside]


@DTYPES
@pytest.mark.parametrize("name", FREE)
def test_what_moves_nothing(name: str, dtype: str) -> None:
    assert not outside(*FREE[name], dtype)


@DTYPES
@pytest.mark.parametrize("name", MOVES)
def test_what_moves(name: str, dtype: str) -> None:
    assert outside(*MOVES[name], dtype)


@DTYPES
def test_a_single_element_is_not_worth_telling(dtype: str) -> None:
    assert not outside(lambda x: x.reshape(1, 1), (1,), dtype)


@pytest.mark.skipif(bool(libtpu.unavailable_reason()), reason="libtpu is not installed")
@DTYPES
def test_libtpu_says_the_same(dtype: str) -> None:
    """All that moves nothing, in one program: between its inputs and its kernels, bitcasts."""
    changes = list(FREE.values())
    given = [jax.ShapeDtypeStruct(shape, jnp.dtype(dtype)) for _, shape in changes]

    def launch(*arrays: Any) -> Any:
        pairs = zip(changes, arrays, strict=True)
        return [around(change)(array) for (change, _), array in pairs]

    hlo = libtpu.compiled(libtpu.lower(launch, given, V5E))
    entry = hlo[hlo.index("ENTRY") :]
    made = set(re.findall(r"= \S+ ([a-z\-]+)\(", entry))
    assert made - {"parameter", "custom-call", "tuple"} == {"bitcast"}
