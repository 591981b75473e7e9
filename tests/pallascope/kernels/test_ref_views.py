"""The strict interpreter reads and writes buffers through ref.bitcast and ref.reshape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from pallascope.kernels import CopyWatch, TracedLaunch, watching_copies
from pallascope.model import Mode

X = np.arange(16 * 128, dtype=np.float32).reshape(16, 128)


@pytest.fixture(autouse=True, scope="module")
def cpu() -> None:
    jax.config.update("jax_platforms", "cpu")


def ran(kernel: Callable[..., None]) -> Any:
    out = jax.ShapeDtypeStruct(X.shape, jnp.float32)
    launch = TracedLaunch.of(lambda x: pl.pallas_call(kernel, out_shape=out)(x), [X], {})
    return launch.run([X], Mode.STRICT)[0]


def reads_bits(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref.bitcast(jnp.int32)[...].astype(jnp.float32)


def reads_rows(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = jnp.concatenate([x_ref.reshape(2, 8, 128)[1], x_ref.reshape(2, 8, 128)[0]])


def writes_bits(x_ref: Any, o_ref: Any) -> None:
    bits = o_ref.bitcast(jnp.int32)
    bits[...] = jnp.zeros(bits.shape, jnp.int32)
    bits[8:, :] = jax.lax.bitcast_convert_type(x_ref[8:, :], jnp.int32)


def writes_halves(x_ref: Any, o_ref: Any) -> None:
    halves = o_ref.reshape(2, 8, 128)

    def write(half: Any, _: None) -> None:
        halves[half] = x_ref[pl.ds(8 * half, 8), :] + half

    jax.lax.fori_loop(0, 2, write, None)


def writes_a_part_of_a_part(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...]
    o_ref.at[8:16].reshape(2, 4, 128).at[1, 2:].bitcast(jnp.int32)[...] = jnp.zeros(
        (2, 128), jnp.int32
    )


LAST_ROWS_ARE_ZERO = np.where(np.arange(16)[:, None] < 14, X, 0)


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (reads_bits, X.view(np.int32).astype(np.float32)),
        (reads_rows, np.roll(X, 8, axis=0)),
        (writes_bits, np.where(np.arange(16)[:, None] < 8, 0, X)),
        (writes_halves, X + np.repeat([0, 1], 8)[:, None]),
        (writes_a_part_of_a_part, LAST_ROWS_ARE_ZERO),
    ],
)
def test_a_buffer_is_read_and_written_through_views(
    kernel: Callable[..., None], expected: Any
) -> None:
    assert np.array_equal(ran(kernel), expected)


#: One slot of two, seen as rows: with the slot chosen before the view, and after it.
VIEWS: dict[str, Callable[[Any], Any]] = {
    "reshape": lambda slots: slots.at[0].reshape(16, 128),
    "bitcast": lambda slots: slots.at[0].bitcast(jnp.int32).reshape(16, 128),
    "bitcast first": lambda slots: slots.bitcast(jnp.int32).at[0].reshape(16, 128),
    "bitcast of a range": lambda slots: slots.bitcast(jnp.int32).at[pl.ds(0, 1)].reshape(16, 128),
    "two views first": lambda slots: slots.bitcast(jnp.int32).reshape(2, 16, 128).at[0],
}


@pytest.mark.parametrize("wait", [True, False])
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_of_one_slot_reads_this_slot_alone(view: str, wait: bool) -> None:
    """While a copy into the other slot is under way."""

    def kernel(x_hbm: Any, o_ref: Any, slots: Any, sems: Any) -> None:
        first, second = (
            pltpu.make_async_copy(x_hbm.at[n], slots.at[n], sems.at[n]) for n in range(2)
        )
        first.start()
        second.start()
        if wait:
            first.wait()
        o_ref[...] = VIEWS[view](slots)[pl.ds(0, 16), :].view(o_ref.dtype)
        if not wait:
            first.wait()
        second.wait()

    def launch(x: Any) -> Any:
        return pl.pallas_call(
            kernel,
            in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
            out_shape=jax.ShapeDtypeStruct((16, 128), x.dtype),
            scratch_shapes=[pltpu.VMEM((2, 2, 8, 128), x.dtype), pltpu.SemaphoreType.DMA((2,))],
        )(x)

    x, copies = np.arange(2 * 2 * 8 * 128, dtype=np.float32).reshape(2, 2, 8, 128), CopyWatch()
    with watching_copies(copies):
        (result,) = TracedLaunch.of(launch, (x,), {}).run((x,), Mode.STRICT)
    assert bool(copies.faults) is not wait
    if wait:
        assert np.array_equal(result, x[0].reshape(16, 128))


def masked(rows: int) -> Any:
    """float32[16, 4, 128]: ones in the first rows, through a view of an output with 8 heads."""

    def kernel(o_ref: Any) -> None:
        o_ref[...] = jnp.zeros_like(o_ref)
        part = o_ref.at[:, :4, :]
        inside = jax.lax.broadcasted_iota(jnp.int32, (16, 4, 128), 0) < rows
        pltpu.store(part, jnp.ones((16, 4, 128)), mask=inside)

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((16, 8, 128), jnp.float32))()


@pytest.mark.parametrize("rows", [0, 3, 16])
def test_a_masked_store_within_bounds(rows: int) -> None:
    """Its second dimension is smaller than its first: jax takes one for the other."""
    (result,) = TracedLaunch.of(lambda: masked(rows), (), {}).run((), Mode.STRICT)
    expected = np.zeros((16, 8, 128))
    expected[:rows, :4] = 1
    assert np.array_equal(result, expected)
