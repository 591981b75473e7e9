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
from pallascope.model import DmaHazard, Mode

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


PAGES = np.arange(4 * 16 * 2 * 128, dtype=np.float32).reshape(4, 16, 2, 128)
ROWS = PAGES.reshape(64, 2, 128)


def copied_rows(
    table: Any, pages: Any, *, size: int, both: bool = False, wait: bool = True, extra: bool = False
) -> Any:
    """Rows table[0] to table[0] + size of all pages; or table[1] rows, if `size` is 0.

    `both` ends are merged dimensions. An `extra` wait is for the same rows once more.
    """

    def kernel(table_ref: Any, x_hbm: Any, o_hbm: Any, sem: Any) -> None:
        count = size or table_ref[1]
        source = x_hbm.reshape(64, 2, 128).at[pl.ds(table_ref[0], count)]
        if both:
            target = o_hbm.reshape(64, 2, 128).at[pl.ds(table_ref[0] // 2, count)]
        else:
            target = o_hbm.at[1].at[pl.ds(0, count)]
        copy = pltpu.make_async_copy(source, target, sem)
        copy.start()
        for _ in range(wait + extra):
            copy.wait()

    shape = (4, 16, 2, 128) if both else (2, 48, 2, 128)
    hbm = pl.BlockSpec(memory_space=pl.ANY)
    grid = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        in_specs=[hbm, hbm],
        out_specs=hbm,
        scratch_shapes=[pltpu.SemaphoreType.DMA],
    )

    def into(table_ref: Any, x_hbm: Any, _: Any, o_hbm: Any, sem: Any) -> None:
        kernel(table_ref, x_hbm, o_hbm, sem)

    out = jax.ShapeDtypeStruct(shape, pages.dtype)
    return pl.pallas_call(into, out_shape=out, grid_spec=grid, input_output_aliases={2: 0})(
        table, pages, jnp.zeros(shape, pages.dtype)
    )


def faults_and_result(start: int, size: int, dynamic: bool = False, **how: Any) -> Any:
    copies, table = CopyWatch(), np.array([start, size], np.int32)

    def launch(table: Any, pages: Any) -> Any:
        return copied_rows(table, pages, size=0 if dynamic else size, **how)

    with watching_copies(copies):
        (result,) = TracedLaunch.of(launch, (table, PAGES), {}).run((table, PAGES), Mode.STRICT)
    return copies.faults, result


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    ("start", "size"), [(0, 16), (16, 16), (5, 16), (15, 1), (16, 1), (31, 33), (3, 40), (0, 48)]
)
def test_a_copy_of_rows_of_merged_dimensions(start: int, size: int, dynamic: bool) -> None:
    faults, result = faults_and_result(start, size, dynamic)
    assert not faults
    assert np.array_equal(result[1, :size], ROWS[start : start + size])
    assert not result[0].any()
    assert not result[1, size:].any()


@pytest.mark.parametrize(("start", "size"), [(0, 16), (16, 16), (5, 20), (3, 1), (0, 48), (63, 1)])
def test_known_rows_of_merged_dimensions(start: int, size: int) -> None:
    """Also of a wait whose both ends are the same rows, and of one row by its number."""

    def kernel(x_hbm: Any, o_hbm: Any, sem: Any) -> None:
        rows, target = x_hbm.reshape(64, 2, 128), o_hbm.reshape(64, 2, 128)
        part = target.at[pl.ds(0, size)]
        pltpu.make_async_copy(rows.at[pl.ds(start, size)], part, sem).start()
        pltpu.make_async_copy(part, part, sem).wait()
        pltpu.sync_copy(rows.at[start], target.at[63])

    def launch(x: Any) -> Any:
        hbm = pl.BlockSpec(memory_space=pl.ANY)
        out, scratch = jax.ShapeDtypeStruct(x.shape, x.dtype), [pltpu.SemaphoreType.DMA]
        return pl.pallas_call(
            kernel, in_specs=[hbm], out_specs=hbm, out_shape=out, scratch_shapes=scratch
        )(x)

    copies = CopyWatch()
    with watching_copies(copies):
        (result,) = TracedLaunch.of(launch, (PAGES,), {}).run((PAGES,), Mode.STRICT)
    assert not copies.faults
    result = result.reshape(ROWS.shape)
    assert np.array_equal(result[:size], ROWS[start : start + size])
    assert np.array_equal(result[63], ROWS[start])


@pytest.mark.parametrize(("start", "size"), [(6, 16), (0, 16), (30, 2), (10, 33)])
def test_merged_dimensions_at_both_ends(start: int, size: int) -> None:
    faults, result = faults_and_result(start, size, both=True)
    assert not faults
    expected = np.zeros_like(ROWS)
    expected[start // 2 : start // 2 + size] = ROWS[start : start + size]
    assert np.array_equal(result.reshape(ROWS.shape), expected)


def test_faults_of_copies_of_merged_dimensions() -> None:
    faults, _ = faults_and_result(5, 16, wait=False)
    assert {one.hazard for one in faults} == {DmaHazard.NEVER_AWAITED}
    with pytest.raises(Exception, match="wait"):
        faults_and_result(5, 16, extra=True)
    with pytest.raises(Exception, match="Out-of-bounds"):
        faults_and_result(60, 16)
