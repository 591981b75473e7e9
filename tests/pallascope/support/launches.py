"""Launch functions for tests of what a TPU moves: drawn block specs, and their counts."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from pallascope.kernels import TracedLaunch
from pallascope.kernels.lowering import TracedKernel, for_chip
from pallascope.tpu.traffic import Traffic, traffic

Function = Callable[..., Any]


def shape(dtype: str, *sizes: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sizes, jnp.dtype(dtype))


def on_v5e(function: Function, *args: Any) -> TracedKernel:
    """The only kernel of a launch, traced for a TPU v5e."""
    with for_chip("TPU v5 lite", 1):
        (kernel,) = TracedLaunch.of(function, args, {}).kernels(args)
    return kernel


def counted(kernel: TracedKernel) -> Traffic:
    """What a kernel moves, by its index maps and by its trace."""
    blocks = kernel.block_positions()
    return traffic(kernel.call, blocks.grid, blocks.starts, blocks.unknown, kernel.copies())


def moved_bytes(kernel: TracedKernel) -> dict[str, int | None]:
    """Bytes of HBM by operand name: what a simulator of the compiled kernel has to find."""
    rows = counted(kernel).operands
    return {row.name: row.bytes for row in rows if row.role.value != "scratch"}


def copies(
    dtype: str, sizes: tuple[int, ...], ins: Any, outs: Any = None, grid: tuple[int, ...] = (1,)
) -> tuple[Function, jax.ShapeDtypeStruct]:
    """A launch that copies an array of this shape block by block, and its argument."""

    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...]

    def launch(x: Any) -> Any:
        out = jax.ShapeDtypeStruct(x.shape, x.dtype)
        specs = {"in_specs": [ins], "out_specs": outs or ins}
        return pl.pallas_call(kernel, out_shape=out, grid=grid, **specs)(x)

    return launch, shape(dtype, *sizes)


@dataclass(frozen=True)
class Drawn:
    """A launch with drawn block specs; `str` says what was drawn."""

    launch: Function
    argument: jax.ShapeDtypeStruct
    words: str

    def __str__(self) -> str:
        return self.words


def draw(seed: int, count: int) -> Iterator[Drawn]:
    """Legal block specs that the TPU compiler accepts: ragged, squeezed, padded, revisited …"""
    deck = random.Random(seed)
    for _ in range(count):
        dtype = deck.choice(["float32", "float32", "bfloat16", "bfloat16", "int8", "int32"])
        sizes, block = _sizes(deck, dtype)
        yield _drawn(deck, dtype, sizes, block)


def _sizes(deck: random.Random, dtype: str) -> tuple[tuple[int, ...], tuple[int | None, ...]]:
    rank = deck.choice([1, 2, 2, 2, 3, 3, 4])
    if rank == 1:
        sublane = 128 * (4 // jnp.dtype(dtype).itemsize)
        size = deck.choice([100, 2 * sublane, 1024, 1500, 2048, 3000, 5000])
        smaller = [b for b in (sublane, 2 * sublane, 4 * sublane, 1024, 2048) if b < size]
        return (size,), (deck.choice([size, *smaller]),)
    lead = [deck.choice([1, 2, 3, 5]) for _ in range(rank - 2)]
    rows = deck.choice([2, 3, 5, 8, 12, 16, 20, 40, 64, 100])
    columns = deck.choice([1, 7, 128, 200, 256, 384, 500])
    block = (
        *(deck.choice([None, 1, min(2, n)]) for n in lead),
        deck.choice([rows, *(b for b in (8, 16, 24, 32, 64) if b < rows)]),
        deck.choice([columns, *(b for b in (128, 256) if b < columns)]),
    )
    return (*lead, rows, columns), block


def _drawn(
    deck: random.Random, dtype: str, sizes: tuple[int, ...], block: tuple[int | None, ...]
) -> Drawn:
    rank = len(sizes)
    counts = [-(-n // (b or 1)) for n, b in zip(sizes, block, strict=True)]
    order = deck.sample(range(rank), rank)
    grid = [counts[axis] for axis in order]
    idle = deck.choice([None, None, 0, rank])  # where a grid axis stands that no map looks at
    if idle is not None:
        grid.insert(idle, 3)
    place = {a: order.index(a) + (idle is not None and idle == 0) for a in range(rank)}
    style = deck.choice(["in order", "reversed", "each twice", "last stays"])
    buffers = deck.choice([None, None, None, 1])

    def ins(*at: Any) -> tuple[Any, ...]:
        index = [at[place[axis]] for axis in range(rank)]
        if style == "reversed":
            index = [n - 1 - i for n, i in zip(counts, index, strict=True)]
        elif style == "each twice":
            index[0] = index[0] // 2
        elif style == "last stays":
            index[-1] = 0
        return tuple(index)

    def outs(*at: Any) -> tuple[Any, ...]:
        return tuple(at[place[axis]] for axis in range(rank))

    mode = {"pipeline_mode": pl.Buffered(buffers)} if buffers else {}
    launch, argument = copies(
        dtype,
        sizes,
        pl.BlockSpec(block, ins, **mode),
        pl.BlockSpec(block, outs, **mode),
        tuple(grid),
    )
    words = f"{dtype}{list(sizes)} in {block}, grid {tuple(grid)}, {style}, buffers {buffers or 2}"
    return Drawn(launch, argument, words)
