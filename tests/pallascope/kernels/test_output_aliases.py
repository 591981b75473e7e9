"""Which output of the last kernel a result is, unchanged or reshaped."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl

from pallascope.kernels import TracedLaunch
from tests.pallascope.support.launches import shape


def two(x: jax.Array) -> list[jax.Array]:
    """Twice x, and x squared."""

    def kernel(x_ref: Any, double_ref: Any, square_ref: Any) -> None:
        double_ref[...] = 2 * x_ref[...]
        square_ref[...] = x_ref[...] * x_ref[...]

    return pl.pallas_call(kernel, out_shape=[jax.ShapeDtypeStruct(x.shape, x.dtype)] * 2)(x)


@pytest.mark.parametrize(
    ("after", "held"),
    [
        (lambda a, b: (a, b), ((0, 0), (0, 1))),
        (lambda a, b: (b.reshape(-1), a[None]), ((0, 1), (0, 0))),
        (lambda a, b: jax.jit(lambda y: y.reshape(2, 8, 64))(b), ((0, 1),)),
        (lambda a, b: a.T, (None,)),
        (lambda a, b: (a + 1, jnp.zeros((2,)), a[:4]), (None, None, None)),
        (lambda a, b: two(b), ((1, 0), (1, 1))),
        (lambda a, b: (two(b)[0], a), ((1, 0), (0, 0))),
    ],
)
def test_results_are_told_by_the_output_that_they_hold(after: Any, held: tuple[Any, ...]) -> None:
    launch = TracedLaunch.of(lambda x: after(*two(x)), (shape("float32", 8, 128),), {})
    assert launch.trace().kernel_outputs == held
