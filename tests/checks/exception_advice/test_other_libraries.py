"""Advice on what other libraries call otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from tests.checks.exception_advice.raising import WRONGLY, launching, told

NUMPY: Any = jnp


@pytest.fixture(autouse=True, scope="module")
def cpu() -> None:
    jax.config.update("jax_platforms", "cpu")


def keeps_dim(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...] - NUMPY.max(x_ref[...], axis=1, keepdim=True)


def softmax_of_numpy(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = NUMPY.softmax(x_ref[...], axis=1)


def unsqueezes(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...] + x_ref[0].unsqueeze(0)


def counts_in_pallas(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...] + WRONGLY.arange(0, 128)


@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        (keeps_dim, "axis= and keepdims="),
        (softmax_of_numpy, "is in jax.nn"),
        (unsqueezes, "That is PyTorch's"),
        (counts_in_pallas, "lax.broadcasted_iota(jnp.int32, shape, axis) counts"),
    ],
)
def test_advice_fits_what_is_raised(kernel: Any, says: str) -> None:
    assert says in told(lambda: launching(kernel), __file__, Path(__file__).read_bytes())
