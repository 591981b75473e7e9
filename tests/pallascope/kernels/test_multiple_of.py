"""A promise to the compiler that is not kept shows in what the interpreter returns."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

from pallascope.kernels import TracedLaunch
from pallascope.model import Mode

X = np.arange(32 * 128, dtype=np.float32).reshape(32, 128)


@pytest.fixture(autouse=True, scope="module")
def cpu() -> None:
    jax.config.update("jax_platforms", "cpu")


def from_row(start: int, promised: int) -> Any:
    """A launch that copies 8 rows from a start of which it promises something."""

    def kernel(start_ref: Any, x_ref: Any, o_ref: Any) -> None:
        row = pl.multiple_of(start_ref[0], promised)
        o_ref[...] = x_ref[pl.ds(row, 8), :]

    def launch(x: Any) -> Any:
        rows = jax.ShapeDtypeStruct((8, 128), jnp.float32)
        return pl.pallas_call(kernel, out_shape=rows)(jnp.full((1,), start, jnp.int32), x)

    return launch


@pytest.mark.parametrize("mode", [Mode.STRICT, Mode.INTERPRET])
@pytest.mark.parametrize(
    ("start", "promised", "shown"), [(16, 8, 16), (16, 16, 16), (12, 8, 8), (5, 1, 5)]
)
def test_an_index_is_what_was_promised(start: int, promised: int, shown: int, mode: Mode) -> None:
    (result,) = TracedLaunch.of(from_row(start, promised), (X,), {}).run((X,), mode, 1)
    assert np.array_equal(result, X[shown : shown + 8])
