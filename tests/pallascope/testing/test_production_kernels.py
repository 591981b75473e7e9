"""Kernels of the same kinds as those of other repositories: right ones, and their true faults.

Each fault was found in a released kernel; these kernels have it too, and little else.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from pallascope import KernelFault, Pallas

I32 = jnp.int32
HBM = pl.BlockSpec(memory_space=pl.ANY)
VMEM = pl.BlockSpec(memory_space=pltpu.VMEM)


@pytest.fixture
def pallas() -> Pallas:
    return Pallas(seed=1, seconds=20)


def launched(kernel: Callable[..., None], out: Any, scratch: Any, **how: Any) -> Any:
    """The pallas_call of a kernel that takes a table of int32 first."""
    spec = {"in_specs": [HBM], "out_specs": VMEM, **how}
    grid = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, scratch_shapes=scratch, **spec)
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(*out), grid_spec=grid)


# ---- copies of no rows ----


def first_rows(n: Any, x: Any) -> Any:
    """The first n[0] rows of x, and zeros."""

    def kernel(n_ref: Any, x_hbm: Any, o_ref: Any, sem: Any) -> None:
        o_ref[...] = jnp.zeros_like(o_ref)
        part = pl.ds(0, n_ref[0])
        pltpu.async_copy(x_hbm.at[part], o_ref.at[part], sem).wait()

    return launched(kernel, (x.shape, x.dtype), [pltpu.SemaphoreType.DMA])(n, x)


def last_rows(n: Any, x: Any) -> Any:
    """The last n[0] rows of x[1], and zeros: for none, the copy begins at the end."""

    def kernel(n_ref: Any, x_hbm: Any, o_ref: Any, sem: Any) -> None:
        o_ref[...] = jnp.zeros_like(o_ref)
        rows = n_ref[0]
        part = x_hbm.at[1, pl.ds(x.shape[1] - rows, rows)]
        pltpu.async_copy(part, o_ref.at[pl.ds(0, rows)], sem).wait()

    return launched(kernel, (x.shape[1:], x.dtype), [pltpu.SemaphoreType.DMA])(n, x)


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_a_copy_of_no_rows(pallas: Pallas, rows: int) -> None:
    """Nothing signals its semaphore, and a wait for it passes."""
    n, x = np.array([rows], np.int32), pallas.normal((3, 8, 128))
    padding = [(0, 3 - rows), (0, 0), (0, 0)]
    pallas.check(first_rows, n, x, expected=lambda n, x: jnp.pad(x[:rows], padding))
    x = pallas.normal((2, 3, 8, 128))
    pallas.check(last_rows, n, x, expected=lambda n, x: jnp.pad(x[1, 3 - rows :], padding))


def zeroed_while_pipelined(n: Any, x: Any) -> Any:
    """x + 1 by a pipeline, but zeros in the last row; for other rows, copies of no rows."""

    def kernel(n_ref: Any, x_hbm: Any, o_hbm: Any, zeros: Any, sem: Any) -> None:
        def add(x_ref: Any, o_ref: Any) -> None:
            o_ref[...] = x_ref[...] + 1

        zeros[...] = jnp.zeros_like(zeros)
        for i in range(4):
            target = o_hbm.at[pl.ds(i, n_ref[i])]
            pltpu.make_async_copy(zeros.at[pl.ds(0, n_ref[i])], target, sem).start()
        spec = pl.BlockSpec((None, 8, 128), lambda i: (i, 0, 0))
        pltpu.emit_pipeline(add, grid=(3,), in_specs=[spec], out_specs=[spec])(x_hbm, o_hbm)
        last = o_hbm.at[pl.ds(3, 1)]
        pltpu.make_async_copy(last, last, sem).wait()

    scratch = [pltpu.VMEM((1, 8, 128), x.dtype), pltpu.SemaphoreType.DMA]
    return launched(kernel, (x.shape, x.dtype), scratch, out_specs=HBM)(n, x)


def test_a_copy_of_no_rows_has_no_race(pallas: Pallas) -> None:
    n, x = np.array([0, 0, 0, 1], np.int32), pallas.normal((4, 8, 128))
    pallas.check(zeroed_while_pipelined, n, x, expected=lambda n, x: (x + 1).at[3].set(0))


# ---- tiles, words, scratch ----


@pytest.mark.parametrize("buffers", [2, 3])
def test_a_pipeline_reads_whole_tiles(pallas: Pallas, buffers: int) -> None:
    """A block of 256 columns of an array with 192."""

    def kernel(x_hbm: Any, o_hbm: Any) -> None:
        def add(x_ref: Any, o_ref: Any) -> None:
            o_ref[...] = x_ref[...] + 1

        block = pl.BlockSpec((None, 8, 256), lambda i: (i, 0, 0))
        given = dataclasses.replace(block, pipeline_mode=pl.Buffered(buffers))
        pltpu.emit_pipeline(add, grid=(4,), in_specs=[given], out_specs=[block])(x_hbm, o_hbm)

    def added(x: Any) -> Any:
        out = jax.ShapeDtypeStruct((4, 8, 256), x.dtype)
        return pl.pallas_call(kernel, in_specs=[HBM], out_specs=HBM, out_shape=out)(x)[..., :192]

    pallas.check(added, pallas.normal((4, 8, 192)), expected=lambda x: x + 1)


def doubled_halves(x: Any, packed: Any, unpacked: Any) -> Any:
    """2 x, word by word."""

    def kernel(x_ref: Any, o_ref: Any) -> None:
        words = x_ref.bitcast(jnp.uint32)[...]
        parts = 32 // (8 * jnp.dtype(packed).itemsize)
        values = [
            pltpu.unpack_elementwise(words, index=i, packed_dtype=packed, unpacked_dtype=unpacked)
            for i in range(parts)
        ]
        doubled = pltpu.pack_elementwise([2 * value for value in values], packed_dtype=packed)
        o_ref.bitcast(jnp.uint32)[...] = doubled

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def test_packed_words(pallas: Pallas) -> None:
    x = pallas.normal((16, 128), jnp.bfloat16)
    pallas.check(doubled_halves, x, jnp.bfloat16, jnp.float32, expected=lambda x, *_: 2 * x)
    x = pallas.integers(-60, 60, (32, 128), jnp.int8)
    pallas.check(doubled_halves, x, jnp.int8, I32, expected=lambda x, *_: 2 * x)


def scratch_in_an_output(x: Any) -> Any:
    """2 x + 1. Two cores write one block of the first output, which nothing uses."""

    def kernel(x_ref: Any, scratch_ref: Any, o_ref: Any) -> None:
        scratch_ref[...] = x_ref[...] * 2
        o_ref[...] = scratch_ref[...] + 1

    own = pl.BlockSpec((8, 128), lambda i: (i, 0))
    _, result = pl.pallas_call(
        kernel,
        grid=(4,),
        in_specs=[own],
        out_specs=[pl.BlockSpec((8, 128), lambda i: (0, 0)), own],
        out_shape=[jax.ShapeDtypeStruct((8, 128), x.dtype), jax.ShapeDtypeStruct(x.shape, x.dtype)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
    )(x)
    return result


def test_scratch_in_an_output_before_another_kernel(pallas: Pallas) -> None:
    """The names of a race are those of the kernel that races, not of the last one."""

    def both(x: Any) -> Any:
        def kernel(y_ref: Any, o_ref: Any) -> None:
            o_ref[...] = y_ref[...] * 3

        y = scratch_in_an_output(x)
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(y.shape, y.dtype))(y)

    pallas.check(both, pallas.normal((32, 128)), expected=lambda x: 3 * (2 * x + 1))


# ---- true faults ----


def pages(n: Any, k: Any, *, sems: int, prefetch: bool = True) -> Any:
    """The sum of pages n[0], n[1], … of k, with the next page prefetched."""
    count = len(n)

    def kernel(n_ref: Any, k_hbm: Any, o_ref: Any, slots: Any, sem: Any) -> None:
        def copy(step: Any) -> Any:
            at = sem.at[step % sems]
            return pltpu.make_async_copy(k_hbm.at[n_ref[step]], slots.at[step % 2], at)

        copy(0).start()
        o_ref[...] = jnp.zeros_like(o_ref)

        @pl.loop(0, count)
        def _(step: Any) -> None:
            @pl.when((step + 1 < count) & prefetch)
            def _() -> None:
                copy(step + 1).start()

            copy(step).wait()
            o_ref[...] += slots[step % 2]

    scratch = [pltpu.VMEM((2, 8, 128), k.dtype), pltpu.SemaphoreType.DMA((sems,))]
    return launched(kernel, (k.shape[1:], k.dtype), scratch)(n, k)


def fault(test: Callable[[], Any]) -> str:
    with pytest.raises(KernelFault) as raised:
        test()
    return " ".join(str(raised.value).split())


def test_one_semaphore_for_a_page_and_the_prefetch_of_the_next(pallas: Pallas) -> None:
    """As in JetStream's and ejkernel's attention: a wait may count the other copy's bytes."""
    n, k = np.array([3, 0, 2, 3], np.int32), pallas.normal((4, 8, 128))
    expected = lambda n, k: k[n].sum(axis=0)  # noqa: E731
    pallas.check(pages, n, k, sems=2, expected=expected)
    told = fault(lambda: pallas.check(pages, n, k, sems=1, expected=expected))
    assert "before all copies on sem[0] have ended" in told


def test_a_prefetch_that_is_never_started(pallas: Pallas) -> None:
    """As in jax's paged attention over two cores on a chip with one."""
    n, k = np.array([3, 0], np.int32), pallas.normal((4, 8, 128))
    told = fault(lambda: pallas.check(pages, n, k, sems=2, prefetch=False))
    assert "waits on sem[1], where no copy was started" in told


def test_a_prefetch_into_a_slot_that_is_still_being_stored_from(pallas: Pallas) -> None:
    """As in tpu-inference's decode of gated delta rules."""

    def moved(x: Any, late: bool = False) -> Any:
        def kernel(_: Any, x_hbm: Any, o_hbm: Any, slot: Any, sems: Any) -> None:
            for step in range(3):
                pltpu.async_copy(x_hbm.at[step], slot, sems.at[0]).wait()
                out = pltpu.make_async_copy(slot, o_hbm.at[step], sems.at[1])
                out.start()
                if not late:
                    out.wait()
            for step in range(3 if late else 0):
                pltpu.make_async_copy(slot, o_hbm.at[step], sems.at[1]).wait()

        scratch = [pltpu.VMEM(x.shape[1:], x.dtype), pltpu.SemaphoreType.DMA((2,))]
        launch = launched(kernel, (x.shape, x.dtype), scratch, out_specs=HBM)
        return launch(jnp.zeros(1, I32), x)

    x = pallas.normal((3, 8, 128))
    pallas.check(moved, x, expected=lambda x: x)
    told = fault(lambda: pallas.check(moved, x, late=True, expected=lambda x, late: x))
    assert "slot is overwritten while it is being copied" in told
