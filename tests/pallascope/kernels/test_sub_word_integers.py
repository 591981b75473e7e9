"""Where a kernel computes with integers of fewer than 32 bits."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from pallascope.kernels import TracedLaunch
from pallascope.model import SubWordInt

WORDS = jax.ShapeDtypeStruct((8, 128), jnp.int32)
SHORTS = jax.ShapeDtypeStruct((8, 128), jnp.int16)


def masks(x_ref: Any, o_ref: Any) -> None:
    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        rows = jax.lax.broadcasted_iota(jnp.int16, x_ref.shape, 0)  # the first line
        o_ref[...] = jnp.where(rows + 1 > 2, x_ref[...], 0)


def casts(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = (x_ref[...].astype(jnp.int32) * 2).astype(o_ref.dtype)


def narrow(kernel: Any, array: jax.ShapeDtypeStruct) -> tuple[SubWordInt, ...]:
    launch = TracedLaunch.of(pl.pallas_call(kernel, array, grid=(1,)), (array,), {})
    (call,) = launch.trace(__file__).calls
    return call.sub_word_ints


def test_the_first_line_that_computes_is_told() -> None:
    first = masks.__code__.co_firstlineno + 3
    assert narrow(masks, WORDS) == (SubWordInt("int16", first),)


def test_what_is_only_stored_is_no_work() -> None:
    assert narrow(casts, SHORTS) == ()
