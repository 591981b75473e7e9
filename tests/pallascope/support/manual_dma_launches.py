"""Launches whose kernels move their operands by DMAs of their own."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from tests.pallascope.support.core_map_kernels import launched

HBM = pl.BlockSpec(memory_space=pl.ANY)
DMA = pltpu.SemaphoreType.DMA
ROWS = 128


def _by_hand(kernel: Any, x: jax.Array, slots: int, overlap: bool) -> Any:
    return pl.pallas_call(
        functools.partial(kernel, overlap=overlap),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        in_specs=[HBM],
        out_specs=HBM,
        scratch_shapes=[
            pltpu.VMEM((slots, ROWS, x.shape[1]), x.dtype),
            pltpu.VMEM((slots, ROWS, x.shape[1]), x.dtype),
            DMA((slots,)),
            DMA((slots,)),
        ],
    )(x)


def _two_slots(
    x_ref: Any, o_ref: Any, came: Any, goes: Any, came_sem: Any, goes_sem: Any, overlap: bool
) -> None:
    steps = x_ref.shape[0] // ROWS

    def bring(step: Any) -> Any:
        slot = jax.lax.rem(step, 2)
        part = x_ref.at[pl.ds(step * ROWS, ROWS)]
        return pltpu.make_async_copy(part, came.at[slot], came_sem.at[slot])

    def send(step: Any) -> Any:
        slot = jax.lax.rem(step, 2)
        part = o_ref.at[pl.ds(step * ROWS, ROWS)]
        return pltpu.make_async_copy(goes.at[slot], part, goes_sem.at[slot])

    if overlap:
        bring(jnp.int32(0)).start()

    def body(step: Any, _: None) -> None:
        if overlap:
            pl.when(step + 1 < steps)(lambda: bring(step + 1).start())
        else:
            bring(step).start()
        bring(step).wait()
        if overlap:
            pl.when(step >= 2)(lambda: send(step - 2).wait())
        slot = jax.lax.rem(step, 2)
        goes[slot] = came[slot] * 2
        send(step).start()
        if not overlap:
            send(step).wait()

    jax.lax.fori_loop(0, steps, body, None)
    if overlap:
        send(jnp.int32(steps - 2)).wait()
        send(jnp.int32(steps - 1)).wait()


def double_buffer(x: jax.Array) -> Any:
    """Twice x: the next part comes, and the last one goes, while the present one is computed."""
    return _by_hand(_two_slots, x, 2, True)


def one_after_another(x: jax.Array) -> Any:
    """The same with two slots of which one is in use: each copy is waited for at once."""
    return _by_hand(_two_slots, x, 2, False)


def ring(x: jax.Array) -> Any:
    """The sum of eight parts of x, three of them on their way at any time."""
    rows, slots = x.shape[0] // 8, 4

    def kernel(x_ref: Any, o_ref: Any, buffer: Any, sem: Any) -> None:
        def bring(step: Any) -> Any:
            slot = jax.lax.rem(step, slots)
            part = x_ref.at[pl.ds(step * rows, rows)]
            return pltpu.make_async_copy(part, buffer.at[slot], sem.at[slot])

        for step in range(slots - 1):
            bring(jnp.int32(step)).start()
        o_ref[...] = jnp.zeros_like(o_ref)

        def body(step: Any, _: None) -> None:
            pl.when(step + slots - 1 < 8)(lambda: bring(step + slots - 1).start())
            bring(step).wait()
            o_ref[...] += buffer[jax.lax.rem(step, slots)]

        jax.lax.fori_loop(0, 8, body, None)

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((rows, x.shape[1]), x.dtype),
        in_specs=[HBM],
        scratch_shapes=[pltpu.VMEM((slots, rows, x.shape[1]), x.dtype), DMA((slots,))],
    )(x)


def _twice(x_ref: Any, o_ref: Any) -> None:
    def body(block: Any, out: Any) -> None:
        out[...] = block[...] * 2

    spec = pl.BlockSpec((ROWS, x_ref.shape[1]), lambda i: (i, 0))
    grid = (x_ref.shape[0] // ROWS,)
    pltpu.emit_pipeline(body, grid=grid, in_specs=[spec], out_specs=[spec])(x_ref, o_ref)


def emitted(x: jax.Array) -> Any:
    """Twice x, by emit_pipeline."""
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(_twice, out_shape=out, in_specs=[HBM], out_specs=HBM)(x)


def over_a_mesh(x: jax.Array) -> Any:
    """The same as a pl.kernel on one core."""
    return launched(_twice, jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def nested(x: jax.Array) -> Any:
    """Sums of the halves of x: a pipeline over results around one over the parts of each."""

    def kernel(x_ref: Any, o_ref: Any) -> None:
        def outer(out: Any) -> None:
            half = pl.program_id(0)
            out[...] = jnp.zeros_like(out)

            def inner(block: Any) -> None:
                out[...] += block[...].reshape(-1, 8, block.shape[1]).sum(0)

            spec = pl.BlockSpec((64, x.shape[1]), lambda i: (half * 4 + i, 0))
            pltpu.emit_pipeline(inner, grid=(4,), in_specs=[spec])(x_ref)

        spec = pl.BlockSpec((8, x.shape[1]), lambda i: (i, 0))
        pltpu.emit_pipeline(outer, grid=(2,), out_specs=[spec])(o_ref)

    out = jax.ShapeDtypeStruct((16, x.shape[1]), x.dtype)
    return pl.pallas_call(kernel, out_shape=out, in_specs=[HBM], out_specs=HBM)(x)


def ragged(lengths: jax.Array, x: jax.Array) -> Any:
    """The sum of the first lengths[i] rows of x[i], in whole blocks of 128 rows."""

    def kernel(lengths: Any, x_ref: Any, o_ref: Any, buffer: Any) -> None:
        i = pl.program_id(0)
        o_ref[...] = jnp.zeros_like(o_ref)

        def body(step: Any, _: None) -> None:
            pltpu.sync_copy(x_ref.at[i, pl.ds(step * ROWS, ROWS)], buffer)
            o_ref[0] += buffer[...].reshape(-1, 8, buffer.shape[1]).sum(0)

        jax.lax.fori_loop(0, pl.cdiv(lengths[i], ROWS), body, None)

    count, _, lanes = x.shape
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((count, 8, lanes), x.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(count,),
            in_specs=[HBM],
            out_specs=pl.BlockSpec((1, 8, lanes), lambda i, _: (i, 0, 0)),
            scratch_shapes=[pltpu.VMEM((ROWS, lanes), x.dtype)],
        ),
    )(lengths, x)


def gather(ids: jax.Array, x: jax.Array) -> Any:
    """Rows of x by their numbers, one DMA each, all counted by one semaphore."""

    def kernel(ids: Any, x_ref: Any, o_ref: Any, sem: Any) -> None:
        def start(row: Any, _: None) -> None:
            source, target = x_ref.at[pl.ds(ids[row], 1)], o_ref.at[pl.ds(row, 1)]
            pltpu.make_async_copy(source, target, sem).start()

        jax.lax.fori_loop(0, 8, start, None)
        pltpu.make_async_copy(x_ref.at[pl.ds(0, 8)], o_ref, sem).wait()

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, x.shape[1]), x.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(),
            in_specs=[HBM],
            out_specs=pl.BlockSpec(memory_space=pltpu.VMEM),
            scratch_shapes=[DMA],
        ),
    )(ids, x)


def gather_over_a_mesh(tables: jax.Array, x: jax.Array) -> Any:
    """Eight rows of x at each number in the tables' second row, which the kernel copies to SMEM."""
    count = tables.shape[1]

    def kernel(tables: Any, x_ref: Any, o_ref: Any) -> None:
        def scoped(row: Any, buffer: Any) -> None:
            pltpu.sync_copy(tables.at[1], row)

            def body(i: Any, _: None) -> None:
                @pl.when(row[i] >= 0)
                def _() -> None:
                    pltpu.sync_copy(x_ref.at[pl.ds(row[i] * 8, 8)], buffer)
                    pltpu.sync_copy(buffer, o_ref.at[pl.ds(i * 8, 8)])

            jax.lax.fori_loop(0, count, body, None)

        buffer = pltpu.VMEM((8, x.shape[1]), x.dtype)
        pl.run_scoped(scoped, pltpu.SMEM((count,), jnp.int32), buffer)

    return launched(kernel, jax.ShapeDtypeStruct((8 * count, x.shape[1]), x.dtype))(tables, x)


def _write_cache(positions: Any, new_ref: Any, old_ref: Any, o_ref: Any, sem: Any) -> None:
    for i in range(new_ref.shape[0]):
        pltpu.make_async_copy(new_ref.at[i], o_ref.at[i, positions[i]], sem).start()
    for i in range(new_ref.shape[0]):
        pltpu.make_async_copy(new_ref.at[i], o_ref.at[i, positions[i]], sem).wait()


def _copy_cache(positions: Any, new_ref: Any, old_ref: Any, o_ref: Any, sem: Any) -> None:
    pltpu.sync_copy(old_ref, o_ref)
    _write_cache(positions, new_ref, old_ref, o_ref, sem)


def _cache(kernel: Any, positions: Any, new: Any, cache: Any, aliases: dict[int, int]) -> Any:
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct(cache.shape, cache.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(),
            in_specs=[HBM, HBM],
            out_specs=HBM,
            scratch_shapes=[DMA],
        ),
        input_output_aliases=aliases,
    )(positions, new, cache)


@functools.partial(jax.jit, donate_argnames="cache")
def cache_write(positions: Any, new: Any, cache: Any) -> Any:
    """One row for each sequence into a cache that the caller gives away, within HBM."""
    return _cache(_write_cache, positions, new, cache, {2: 0})


def new_cache(positions: Any, new: Any, cache: Any) -> Any:
    """The same in a copy of the cache, which the kernel makes."""
    return _cache(_copy_cache, positions, new, cache, {})
