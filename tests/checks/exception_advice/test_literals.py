"""Advice on Python's numbers that don't fit a dtype."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from tests.checks.exception_advice.raising import launching, told


@pytest.fixture(autouse=True, scope="module")
def cpu() -> None:
    jax.config.update("jax_platforms", "cpu")


def bits_of(ref: Any) -> Any:
    return jax.lax.bitcast_convert_type(ref[...], jnp.int32)


def compares_with_2_to_31(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = jnp.where(bits_of(x_ref) >= 2**31, x_ref[...], 0)


def masks_with_ones(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = (bits_of(x_ref) & 0xFFFFFFFF).astype(jnp.float32)


def casts_2_to_32(x_ref: Any, o_ref: Any) -> None:
    bits = bits_of(x_ref).astype(jnp.uint32)
    o_ref[...] = jnp.where(bits < jnp.uint32(2**32), x_ref[...], 0)


def casts_minus_1(x_ref: Any, o_ref: Any) -> None:
    bits = bits_of(x_ref).astype(jnp.uint32)
    o_ref[...] = (bits & jnp.uint32(-1)).astype(jnp.float32)


@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        (compares_with_2_to_31, "make uint32 of both sides"),
        (masks_with_ones, "make uint32 of both sides"),
        (casts_2_to_32, "at most 2**32 - 1"),
        (casts_minus_1, "An unsigned dtype has no negative numbers"),
    ],
)
def test_advice_fits_what_is_raised(kernel: Any, says: str) -> None:
    assert says in told(lambda: launching(kernel), __file__, Path(__file__).read_bytes())
