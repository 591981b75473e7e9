"""What a kernel's body does that is slow, and what it never waits for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from pallascope.kernels import TracedLaunch, for_chip
from pallascope.model import KernelCall, Lint, Mode

SHAPE = jax.ShapeDtypeStruct((256, 256), jnp.float32)
HBM = pl.BlockSpec(memory_space=pl.ANY)
X = np.ones(SHAPE.shape, np.float32)


def turned(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...] + jnp.sum(x_ref[...], axis=1)[None, :]


def column(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...] + jnp.sum(x_ref[...], axis=1, keepdims=True)


def product(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = jnp.dot(x_ref[...], x_ref[...], preferred_element_type=jnp.float32)


def slices(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = jnp.dot(x_ref[:, :8], x_ref[:8, :], precision="highest")


def transposed(x_ref: Any, o_ref: Any) -> None:
    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        o_ref[...] = x_ref[...].T


def masks_with(value: float) -> Callable[..., None]:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            o_ref[...] = jnp.where(x_ref[...] > 0, x_ref[...], value)

    return kernel


def call_of(kernel: Callable[..., None], **options: Any) -> KernelCall:
    launch = pl.pallas_call(kernel, out_shape=SHAPE, grid=(1,), **options)
    with for_chip("TPU v5 lite", 1):
        (call,) = TracedLaunch.of(launch, [X], {}).trace().calls
    return call


@pytest.mark.parametrize(
    ("kernel", "habits"),
    [
        (turned, {Lint.LANE_REDUCTION, Lint.TURNED_COLUMN}),
        (column, {Lint.LANE_REDUCTION}),
        (product, {Lint.ROUNDED_PRODUCT}),
        (slices, {Lint.NARROW_PRODUCT, Lint.PRECISE_PRODUCT}),
        (transposed, {Lint.TRANSPOSE}),
        (masks_with(-1e9), {Lint.NEAR_MASK}),
        (masks_with(-30.0), {Lint.NEAR_MASK}),
        (masks_with(0.0), set()),
        (masks_with(-2.4e38), set()),
        (masks_with(float("-inf")), set()),
    ],
)
def test_habits_are_seen_wherever_they_stand(
    kernel: Callable[..., None], habits: set[Lint]
) -> None:
    assert set(call_of(kernel).lints) == habits


def copies(x_ref: Any, o_ref: Any, buffer_ref: Any, semaphore: Any, *, wait: bool) -> None:
    copy = pltpu.make_async_copy(x_ref, buffer_ref, semaphore)
    copy.start()
    if wait:

        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            copy.wait()

    o_ref[...] = buffer_ref[...]


@pytest.mark.parametrize("wait", [True, False])
def test_copies_that_nothing_waits_for_are_seen(wait: bool) -> None:
    def kernel(*refs: Any) -> None:
        copies(*refs, wait=wait)

    scratch = [pltpu.VMEM(SHAPE.shape, jnp.float32), pltpu.SemaphoreType.DMA(())]
    call = call_of(kernel, in_specs=[HBM], scratch_shapes=scratch)
    assert [o.unawaited for o in call.operands] == [not wait, False, not wait, False]


def test_padding_of_one_input_is_nan_and_of_the_other_is_not() -> None:
    def adds(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
        o_ref[...] = jnp.sum(x_ref[...] + jnp.where(y_ref[...] > 0, 1.0, 0.0), axis=0)[None]

    rows = pl.BlockSpec((16, 128), lambda i: (i, 0))
    launch = pl.pallas_call(
        adds,
        grid=(1,),
        in_specs=[rows, rows],
        out_specs=pl.BlockSpec((1, 128), lambda i: (0, 0)),
        out_shape=jax.ShapeDtypeStruct((1, 128), jnp.float32),
    )
    inputs = [np.ones((10, 128), np.float32)] * 2
    with for_chip("TPU v5 lite", 1):
        traced = TracedLaunch.of(launch, inputs, {})

        def all_nan(padded: int | None) -> bool:
            (result,) = traced.run(inputs, Mode.STRICT, unwritten="zero", padded=padded)
            return bool(np.isnan(result).all())

        assert [all_nan(padded) for padded in (None, 0, 1)] == [False, True, False]
