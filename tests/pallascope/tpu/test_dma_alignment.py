"""Which parts of an array in HBM a copy may move, as the course and the messages state it.

Compiled for each chip. Rows are those of the dimension before the last, of an array in tiles of
(8, 128), int8 (32, 128); two rows of bfloat16, or four of int8, share words of 32 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from pallascope.kernels import TracedLaunch, for_chip
from pallascope.tpu import chips, compiler
from tests.pallascope.support.launches import shape

pytestmark = pytest.mark.skipif(bool(compiler.unavailable_reason()), reason="libtpu")

SHAPE = (256, 512)
ANY = 1  #: The compiler knows nothing about the start.

#: dtype, rows, and the start: a number, or ("multiple of", n) if it is known only at run time.
ACCEPTED = [
    ("float32", 1, ("multiple of", ANY)),
    ("float32", 2, ("multiple of", 2)),
    ("float32", 8, ("multiple of", 8)),
    ("float32", 3, 5),
    ("float32", 16, 8),
    ("bfloat16", 2, ("multiple of", 2)),
    ("bfloat16", 2, 6),
    ("bfloat16", 16, ("multiple of", 8)),
    ("int8", 4, ("multiple of", 4)),
    ("int8", 32, ("multiple of", 32)),
]
OFFSET, SIZE = "Offsets along tiled", "Slice sizes along tiled"
REFUSED = [
    ("bfloat16", 1, ("multiple of", 2), OFFSET),
    ("bfloat16", 1, 0, SIZE),
    ("bfloat16", 2, ("multiple of", ANY), OFFSET),
    ("bfloat16", 2, 1, OFFSET),
    ("int8", 4, ("multiple of", 2), OFFSET),
    ("float32", 2, ("multiple of", ANY), OFFSET),
    ("float32", 2, 7, OFFSET),
    ("float32", 12, 0, SIZE),
    ("int8", 32, ("multiple of", 8), OFFSET),
]
Start = int | tuple[str, int]


def refusal(chip_name: str, dtype: str, rows: int, start: Start, columns: slice) -> str:
    """The compiler's refusal of a copy from HBM to VMEM; "" if it accepts it."""
    size = (rows, columns.stop - columns.start)

    def part_of(x_hbm, first):
        return x_hbm.at[pl.ds(first, rows), pl.ds(columns.start, size[1])]

    return refusal_of_copy(chip_name, dtype, SHAPE, size, start, part_of)


def refusal_of_copy(
    chip_name: str,
    dtype: str,
    whole: tuple[int, ...],
    size: tuple[int, ...],
    start: Start,
    part_of: Callable[[Any, Any], Any],
) -> str:
    def copying(start_ref, x_hbm, o_ref, part_ref, sem):
        first = start
        if isinstance(first, tuple):
            first = pl.multiple_of(start_ref[0] * first[1], first[1])
        part = part_of(x_hbm, first)
        pltpu.make_async_copy(part, part_ref, sem).start()
        pltpu.make_async_copy(part, part_ref, sem).wait()
        o_ref[...] = part_ref[...]

    function = pl.pallas_call(
        copying,
        in_specs=[
            pl.BlockSpec(memory_space=pltpu.SMEM),
            pl.BlockSpec(memory_space=pltpu.HBM),
        ],
        out_shape=jax.ShapeDtypeStruct(size, dtype),
        scratch_shapes=[pltpu.VMEM(size, jnp.dtype(dtype)), pltpu.SemaphoreType.DMA],
    )
    args = [shape("int32", 1), shape(dtype, *whole)]
    chip = chips.named(chip_name)
    with for_chip(chip.kind, chip.cores):
        (kernel,) = TracedLaunch.of(function, args, {}).kernels(args)
    build = compiler.build(kernel, chip)
    assert not build.missing, build.missing
    return str(build.failure) if build.failure else ""


@pytest.mark.parametrize("chip", ["v5e", "v6e", "v5p"])
class TestRowsAndColumns:
    @pytest.mark.parametrize(("dtype", "rows", "start"), ACCEPTED)
    def test_rows_in_one_tile_or_whole_tiles(
        self, chip: str, dtype: str, rows: int, start: Start
    ) -> None:
        assert refusal(chip, dtype, rows, start, slice(0, 512)) == ""

    @pytest.mark.parametrize(("dtype", "rows", "start", "words"), REFUSED)
    def test_parts_of_words_and_of_several_tiles(
        self, chip: str, dtype: str, rows: int, start: Start, words: str
    ) -> None:
        assert words in refusal(chip, dtype, rows, start, slice(0, 512))

    def test_columns_are_whole_tiles(self, chip: str) -> None:
        assert refusal(chip, "float32", 8, 0, slice(128, 384)) == ""
        assert OFFSET in refusal(chip, "float32", 8, 0, slice(64, 192))
        assert refusal(chip, "float32", 8, 0, slice(0, 64))

    @pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
    def test_an_index_of_an_earlier_dimension_may_be_any(self, chip: str, dtype: str) -> None:
        anywhere = ("multiple of", ANY)
        whole, size = (64, 16, 128), (16, 128)
        assert not refusal_of_copy(chip, dtype, whole, size, anywhere, lambda x, row: x.at[row])
