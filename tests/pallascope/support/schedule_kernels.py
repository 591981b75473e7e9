"""Kernels whose schedules only come out right if the scalar core is understood, and their truth.

    python -m tests.pallascope.support.schedule_kernels FILE

compiles them and writes to FILE what schedule/test_compiled_schedules.py reads.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from pallascope.kernels import TracedLaunch
from pallascope.kernels.lowering import TracedKernel, for_chip
from pallascope.tpu import compiler
from pallascope.tpu.chips import named
from pallascope.tpu.schedule import smem_words
from pallascope.tpu.traffic import traffic

F32, I32, U32 = jnp.float32, jnp.int32, jnp.uint32
ANYWHERE = pl.BlockSpec(memory_space=pl.ANY)
SMEM = pl.BlockSpec(memory_space=pltpu.SMEM)
ROWS = pl.BlockSpec((8, 128), lambda i, *_: (i, 0))

EDGES = (0, 1, -1, 7, -7, 255, 65536, 2**31 - 1, -(2**31), -(2**31) + 1, 0x55555555, -98765)


def unsigned(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda x, y: function(x.astype(U32), y.astype(U32))


def divisor(y: Any) -> Any:
    return jnp.where(y == 0, 3, y)


#: Of two words, each another way to compute a word.
ARITHMETIC: tuple[Callable[[Any, Any], Any], ...] = (
    lambda x, y: x * y + (x << 3) - y,
    lambda x, y: x // divisor(y),
    lambda x, y: x % divisor(y),
    lambda x, y: lax.rem(x, divisor(y)),
    lambda x, _: x // 7 + x % 12,
    lambda x, _: x // -3,
    unsigned(lambda x, y: x // divisor(y)),
    unsigned(lambda x, _: x // 7 + x % 641),
    lambda x, y: jnp.minimum(x, y) ^ jnp.maximum(x, 5),
    unsigned(lambda x, y: jnp.minimum(x, y) - jnp.maximum(x, U32(5))),
    lambda x, y: (x >> (y & 31)) | lax.shift_right_logical(x, y & 31),
    lambda x, y: lax.clz(x) - jnp.sign(y) + jnp.abs(x),
    lambda x, y: jnp.where((x < y) & (x > 0) | (y == 7), x, ~y),
    unsigned(lambda x, y: (x < y).astype(U32) + 2 * (x >= U32(9)).astype(U32)),
    lambda x, _: x.astype(jnp.int8).astype(I32) + x.astype(jnp.uint16).astype(I32),
)


def arithmetic() -> tuple[Any, list[Any], Any]:
    """The scalar core computes all of ARITHMETIC on pairs of words; and what is right."""
    x, y = (np.array(one, np.int32).ravel() for one in np.meshgrid(EDGES, EDGES))

    def kernel(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
        def body(i: Any, carry: Any) -> Any:
            for row, function in enumerate(ARITHMETIC):
                o_ref[row, i] = function(x_ref[i], y_ref[i]).astype(I32)
            return carry

        lax.fori_loop(0, len(x), body, 0)

    shape = jax.ShapeDtypeStruct((len(ARITHMETIC), len(x)), I32)
    call = pl.pallas_call(kernel, in_specs=[SMEM, SMEM], out_specs=SMEM, out_shape=shape)
    results = [jax.vmap(function)(jnp.array(x), jnp.array(y)) for function in ARITHMETIC]
    return call, [x, y], np.stack([np.asarray(result).astype(np.int32) for result in results])


def copying(specs: Any, grid: tuple[Any, ...], out_rows: int) -> Callable[..., Any]:
    """Copies the blocks that the specs ask for."""

    def kernel(*refs: Any) -> None:
        refs[-1][...] = refs[-2][...]

    return pl.pallas_call(
        kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=specs[0], grid=grid, in_specs=[specs[1]], out_specs=specs[2]
        ),
        out_shape=jax.ShapeDtypeStruct((out_rows, 128), F32),
    )


def table(dtype: str, shape: tuple[int, ...]) -> tuple[Any, list[Any], None]:
    """The index map looks up which block to read, all over a table in SMEM."""
    steps = 16
    entries = np.random.default_rng(7).integers(0, 8, shape).astype(dtype)

    def block(i: Any, entries_ref: Any) -> tuple[Any, int]:
        place = tuple((i * (7 * axis + 53)) % size for axis, size in enumerate(shape))
        return entries_ref[place].astype(I32), 0

    launch = copying((1, pl.BlockSpec((8, 128), block), ROWS), (steps,), 8 * steps)
    return launch, [entries, np.zeros((64, 128), np.float32)], None


def index_map(block: Callable[[Any], Any], steps: int = 12) -> tuple[Any, list[Any], None]:
    spec = pl.BlockSpec((8, 128), lambda i: (block(i), 0))
    return copying((0, spec, ROWS), (steps,), 8 * steps), [np.zeros((256, 128), np.float32)], None


def dynamic_grid() -> tuple[Any, list[Any], None]:
    def launch(steps: Any, x: Any) -> Any:
        return copying((0, ROWS, ROWS), (steps,), 256)(x)

    return launch, [np.int32(5), np.zeros((256, 128), np.float32)], None


def trips() -> tuple[Any, list[Any], Any]:
    """Loops that turn as often as scalar prefetch says; gives how often in all."""
    counts = np.array([3, 0, 7, 1], np.int32)

    def kernel(counts_ref: Any, x_ref: Any, o_ref: Any) -> None:
        turns = counts_ref[pl.program_id(0)]
        o_ref[...] = lax.fori_loop(0, turns, lambda _, x: jnp.exp(x), x_ref[...])

    call = pl.pallas_call(
        kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1, grid=(4,), in_specs=[ROWS], out_specs=ROWS
        ),
        out_shape=jax.ShapeDtypeStruct((32, 128), F32),
    )
    return call, [counts, np.zeros((32, 128), np.float32)], int(counts.sum())


def copies(
    body: Callable[..., None], inputs: int = 1, scratch: tuple[Any, ...] = ()
) -> tuple[Any, list[Any], None]:
    """`body` copies from an array of 4 x 256 x 256 in HBM to another, by hand."""
    shape = jax.ShapeDtypeStruct((4, 256, 256), F32)
    call = pl.pallas_call(
        body,
        in_specs=[ANYWHERE],
        out_specs=ANYWHERE,
        out_shape=shape,
        scratch_shapes=[*scratch, pltpu.SemaphoreType.DMA],
    )
    return call, [np.zeros(shape.shape, np.float32)], None


def double_buffered(x_ref: Any, o_ref: Any, buffers: Any, done: Any, unused: Any) -> None:
    """Reads each of the four planes, one ahead, and writes the sum to the first."""

    def fetch(i: Any) -> Any:
        return pltpu.make_async_copy(x_ref.at[i], buffers.at[i % 2], done.at[i % 2])

    fetch(0).start()

    def body(i: Any, total: Any) -> Any:
        pl.when(i < 3)(lambda: fetch(i + 1).start())
        fetch(i).wait()
        return total + buffers[i % 2]

    buffers[0] = lax.fori_loop(0, 4, body, jnp.zeros((256, 256), F32))
    pltpu.sync_copy(buffers.at[0], o_ref.at[0])


def nested_pipelines(x_ref: Any, o_ref: Any, done: Any) -> None:
    def inner(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] + 1

    def outer(x_ref: Any, o_ref: Any) -> None:
        half = pl.BlockSpec((1, 256, 128), lambda j: (0, 0, j))
        pltpu.emit_pipeline(inner, grid=(2,), in_specs=[half], out_specs=[half])(x_ref, o_ref)

    plane = pl.BlockSpec((1, 256, 256), lambda i: (i, 0, 0), memory_space=pltpu.VMEM)
    pltpu.emit_pipeline(outer, grid=(4,), in_specs=[plane], out_specs=[plane])(x_ref, o_ref)


def from_hbm_to_hbm(x_ref: Any, o_ref: Any, done: Any) -> None:
    pltpu.make_async_copy(x_ref, o_ref, done).start()
    pltpu.make_async_copy(x_ref, o_ref, done).wait()


def never_started(x_ref: Any, o_ref: Any, buffer: Any, done: Any) -> None:
    pltpu.make_async_copy(x_ref.at[0], buffer, done).wait()


def never_awaited(x_ref: Any, o_ref: Any, buffer: Any, done: Any) -> None:
    pltpu.make_async_copy(x_ref.at[0], buffer, done).start()
    pl.delay(10_000)


def strided(x_ref: Any, o_ref: Any, buffer: Any, done: Any) -> None:
    """Strides along three axes."""
    part = x_ref.at[pl.ds(0, 4), pl.ds(8, 8), pl.ds(128, 128)]
    copy = pltpu.make_async_copy(part, buffer.at[pl.ds(0, 4), pl.ds(0, 8), pl.ds(0, 128)], done)
    copy.start()
    copy.wait()


def by_vector_data(x_ref: Any, o_ref: Any, buffer: Any, done: Any) -> None:
    pltpu.sync_copy(x_ref.at[0], buffer)
    pl.when(jnp.max(buffer[...]) > 0)(lambda: pltpu.sync_copy(buffer, o_ref.at[0]))


PLANE = pltpu.VMEM((256, 256), F32)

KERNELS: dict[str, Callable[[], tuple[Any, list[Any], Any]]] = {
    "arithmetic": arithmetic,
    "table int32": lambda: table("int32", (20, 300)),
    "table int16": lambda: table("int16", (9, 300)),
    "table int8": lambda: table("int8", (32, 300)),
    "table int8 of few rows": lambda: table("int8", (3, 5, 7)),
    "table int4": lambda: table("int4", (64, 130)),
    "table of rank 1": lambda: table("int16", (1000,)),
    "table bool": lambda: table("bool", (3, 200)),
    "division": lambda: index_map(lambda i: i // 3 + (i - 7) // 5 + 2),
    "remainder": lambda: index_map(lambda i: (i - 7) % 5 + lax.rem(i - 7, 3) + 3),
    "bounds": lambda: index_map(lambda i: jnp.minimum(jnp.maximum(i - 3, 0), 4)),
    "dynamic grid": dynamic_grid,
    "trips": trips,
    "double buffered": lambda: copies(
        double_buffered, scratch=(pltpu.VMEM((2, 256, 256), F32), pltpu.SemaphoreType.DMA((2,)))
    ),
    "nested pipelines": lambda: copies(nested_pipelines),
    "strided": lambda: copies(strided, scratch=(pltpu.VMEM((4, 8, 128), F32),)),
    "from HBM to HBM": lambda: copies(from_hbm_to_hbm),
    "never started": lambda: copies(never_started, scratch=(PLANE,)),
    "never awaited": lambda: copies(never_awaited, scratch=(PLANE,)),
    "by vector data": lambda: copies(by_vector_data, scratch=(PLANE,)),
}


#: Chips differ in delay slots, in how they count HBM, and in divisions: so some are compiled twice.
AGAIN = ("arithmetic", "table int8", "remainder", "nested pipelines")
CHIPS = {"v5e": tuple(KERNELS), "v6e": AGAIN, "tpu7x": AGAIN}


def compiled(name: str, chip_name: str) -> dict[str, Any]:
    """What a kernel's schedule is, what its scalar operands hold, and what must come of it."""
    launch, args, truth = KERNELS[name]()
    chip = named(chip_name)
    with for_chip(chip.kind, chip.cores):
        (kernel,) = TracedLaunch.of(launch, args, {}).kernels(args)
        build = compiler.build(kernel, chip)
    assert build.bundles, build
    return {
        "listing": build.bundles,
        "words": [smem_words(arg) if arg.size < 10_000 else [] for arg in map(np.asarray, args)],
        "truth": smem_words(truth) if isinstance(truth, np.ndarray) else truth,
        "bytes": _bytes(kernel),
        "steps": int(np.prod([n or 0 for n in kernel.block_positions().grid], dtype=int)),
    }


def _bytes(kernel: TracedKernel) -> list[int]:
    blocks = kernel.block_positions()
    moved = traffic(kernel.call, blocks.grid, blocks.starts, blocks.unknown)
    return [row.bytes or 0 for row in moved.operands]


if __name__ == "__main__":
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump({c: {n: compiled(n, c) for n in names} for c, names in CHIPS.items()}, file)
