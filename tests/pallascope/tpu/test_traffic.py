"""Which blocks a kernel moves, how many bytes that is, and the words for it: counted by hand."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from pallascope.kernels.lowering import TracedKernel
from pallascope.model import (
    ArrayType,
    KernelCall,
    Operand,
    Role,
)
from pallascope.tools import codec
from pallascope.tpu import block_sizes
from pallascope.tpu.block_sizes import Reuse, reuse
from pallascope.tpu.traffic import (
    BY_THE_KERNEL,
    NO_DMA,
    OUTSIDE,
    OperandTraffic,
    Traffic,
    block_moves,
    bytes_per_step,
    traffic,
)
from tests.pallascope.support import core_map_kernels as launches
from tests.pallascope.support.launches import copies, counted, draw, moved_bytes, on_v5e, shape

KIB = 1024
ROWS = pl.BlockSpec((8, 128), lambda i: (i, 0))
F32 = ArrayType("float32", (32, 128))


@pytest.fixture(autouse=True, scope="module")
def cpu() -> None:
    jax.config.update("jax_platforms", "cpu")


def rows(kernel: TracedKernel) -> dict[str, OperandTraffic]:
    return {row.name: row for row in counted(kernel).operands}


def reused(kernel: TracedKernel) -> dict[str, Reuse]:
    blocks = kernel.block_positions()
    grid = [n for n in blocks.grid if n is not None]
    named = zip(kernel.call.operands, blocks.starts, strict=True)
    return {operand.name: reuse(grid, at) for operand, at in named if at is not None}


def copied(*args: Any, **kwargs: Any) -> OperandTraffic:
    """The input's row of a launch that copies an array."""
    return rows(on_v5e(*copies(*args, **kwargs)))["x_ref"]


def matmul(order: str, bk: int = 128) -> TracedKernel:
    """256 x 256 times 256 x 256 in blocks of 128 x bk, the grid's axes in this order."""

    def kernel(x_ref: Any, y_ref: Any, o_ref: Any, acc_ref: Any) -> None:
        acc_ref[...] += x_ref[...] @ y_ref[...]
        o_ref[...] = acc_ref[...]

    def spec(block: tuple[int, int], axes: str) -> pl.BlockSpec:
        return pl.BlockSpec(block, lambda *at: tuple(at[order.index(axis)] for axis in axes))

    return on_v5e(
        lambda x, y: pl.pallas_call(
            kernel,
            grid=tuple({"i": 2, "j": 2, "k": 256 // bk}[axis] for axis in order),
            in_specs=[spec((128, bk), "ik"), spec((bk, 128), "kj")],
            out_specs=spec((128, 128), "ij"),
            out_shape=jax.ShapeDtypeStruct((256, 256), jnp.float32),
            scratch_shapes=[pltpu.VMEM((128, 128), jnp.float32)],
        )(x, y),
        shape("float32", 256, 256),
        shape("float32", 256, 256),
    )


# ---- a tiled matmul: blocks of 64 KiB ----


def test_a_matmul_that_adds_along_the_innermost_axis() -> None:
    kernel = matmul("ijk")
    found = counted(kernel)
    x, y, o, acc = found.operands
    assert (x.moves, x.bytes, x.least, x.refetch) == (8, 512 * KIB, 256 * KIB, 2.0)
    assert (y.moves, y.bytes, y.least, y.refetch) == (8, 512 * KIB, 256 * KIB, 2.0)
    assert (o.moves, o.bytes, o.least, o.refetch) == (4, 256 * KIB, 256 * KIB, 1.0)
    assert (acc.moves, acc.bytes, acc.vmem) == (0, 0, 64 * KIB)
    assert (found.read, found.written) == (1024 * KIB, 256 * KIB)
    assert (found.bytes, found.least, found.padding) == (1280 * KIB, 768 * KIB, 0)
    assert found.vmem == (2 + 2 + 2 + 1) * 64 * KIB
    assert (found.kernel, found.grid, found.unknown) == ("kernel", (2, 2, 2), ())


def test_a_matmul_in_the_order_that_refetches() -> None:
    """With i innermost, o is written once a step and y is kept for two."""
    found = rows(matmul("jki"))
    assert [found[name].moves for name in ("x_ref", "y_ref", "o_ref")] == [8, 4, 8]
    assert found["o_ref"].refetch == 2.0


def test_whole_rows_are_kept_while_columns_pass() -> None:
    kernel = matmul("ijk", bk=256)
    found = rows(kernel)
    assert [found[name].moves for name in ("x_ref", "y_ref", "o_ref")] == [2, 4, 4]
    assert [found[name].bytes for name in ("x_ref", "y_ref")] == [256 * KIB, 512 * KIB]
    said = reused(kernel)
    assert str(said["x_ref"]) == (
        "its index map changes along axis 0; its block is kept for 2 steps"
    )
    assert (
        str(said["y_ref"]) == "its index map changes on every step of the innermost axis (axis 1)"
    )
    assert (said["x_ref"].kept, said["y_ref"].kept) == ("2 steps", "1 step")


# ---- when blocks move ----


def test_on_which_steps_blocks_move() -> None:
    x = Operand("x", Role.INPUT, F32, (8, 128), "default", axes=(0,))
    starts = np.array([[0, 0], [0, 0], [8, 0], [0, 0], [0, 0]], np.int32)
    assert block_moves(x, starts).tolist() == [True, False, True, True, False]
    assert bytes_per_step(x, starts).tolist() == [4096, 0, 4096, 4096, 0]
    o = dataclasses.replace(x, role=Role.OUTPUT)
    assert block_moves(o, starts).tolist() == [False, True, True, False, True]
    assert block_moves(o, starts[:0]).tolist() == []


def test_a_block_that_every_step_shares_is_fetched_once() -> None:
    kernel = on_v5e(
        *copies("float32", (32, 128), pl.BlockSpec((8, 128), lambda i: (1, 0)), ROWS, (4,))
    )
    x = rows(kernel)["x_ref"]
    assert (x.moves, x.bytes, x.stored, x.vmem) == (1, 4 * KIB, 16 * KIB, 4 * KIB)
    assert str(reused(kernel)["x_ref"]) == "its block never changes"


def test_steps_in_a_row_share_a_block_and_later_ones_fetch_it_again() -> None:
    twice = pl.BlockSpec((8, 128), lambda i: (i // 2 % 2, 0))
    x = copied("float32", (32, 128), twice, ROWS, grid=(8,))
    assert (x.moves, x.bytes, x.least, x.refetch) == (4, 16 * KIB, 8 * KIB, 2.0)


def test_a_block_may_be_kept_for_different_times() -> None:
    starts = np.array([[0], [0], [0], [8], [16], [16]], np.int32)
    said = reuse((2, 3), starts)
    assert str(said) == "its index map changes along axis 1; its block is kept for 1 to 3 steps"


def test_axes_of_one_step_do_not_count() -> None:
    starts = np.array([[0], [8], [16]], np.int32)
    assert reuse((1, 3, 1), starts) == Reuse(axis=1, innermost=1, least=1, most=1)
    assert reuse((), starts[:1]) == Reuse(axis=None, innermost=None, least=1, most=1)
    assert reuse((0,), starts[:0]).axis is None


def test_scalar_prefetch_chooses_the_blocks() -> None:
    def kernel(table_ref: Any, x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...]

    def launch(table: Any, x: Any) -> Any:
        grid_spec = pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(4,),
            in_specs=[pl.BlockSpec((8, 128), lambda i, table: (table[i], 0))],
            out_specs=pl.BlockSpec((8, 128), lambda i, table: (i, 0)),
        )
        out = jax.ShapeDtypeStruct((32, 128), jnp.float32)
        return pl.pallas_call(kernel, grid_spec=grid_spec, out_shape=out)(table, x)

    known = on_v5e(launch, np.array([3, 3, 0, 3], np.int32), shape("float32", 32, 128))
    table, x, o = counted(known).operands
    assert (table.moves, table.bytes, table.padding, table.vmem) == (1, 512, 496, 0)
    assert (x.moves, x.bytes, x.least, x.vmem) == (3, 12 * KIB, 8 * KIB, 8 * KIB)
    assert o.moves == 4

    found = counted(on_v5e(launch, shape("int32", 4), shape("float32", 32, 128)))
    assert found.operands[1].bytes is None
    assert found.operands[1].vmem == 8 * KIB
    (reason,) = found.unknown
    assert reason.startswith("x_ref: its index map reads scalar prefetch")
    assert found.bytes == 512 + 16 * KIB


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_a_grid_of_dynamic_size(steps: int) -> None:
    def launch(n: Any, x: Any) -> Any:
        return copies("float32", (32, 128), ROWS, grid=(n + 1,))[0](x)

    found = counted(on_v5e(launch, np.int32(steps - 1), shape("float32", 32, 128)))
    assert found.grid == (steps,)
    assert found.bytes == steps * 8 * KIB
    assert found.vmem == 16 * KIB  # two copies even for one step: the compiler can't know


# ---- how large they are ----


def test_only_what_lies_inside_the_array_is_moved() -> None:
    """100 x 200 in blocks of 64 x 128: 104 rows and 256 columns, in whole tiles of 8 x 128."""
    x = copied("float32", (100, 200), pl.BlockSpec((64, 128), lambda i, j: (i, j)), grid=(2, 2))
    assert (x.moves, x.bytes) == (4, 104 * 256 * 4)
    assert x.padding == (104 * 256 - 100 * 200) * 4
    assert x.vmem == 2 * 64 * 128 * 4


def test_leading_dimensions_have_edges_but_no_tiles() -> None:
    spec = pl.BlockSpec((2, 8, 128), lambda i: (i, 0, 0))
    x = copied("float32", (5, 8, 128), spec, grid=(3,))
    assert (x.moves, x.bytes, x.padding, x.vmem) == (3, 5 * 4 * KIB, 0, 16 * KIB)


def test_a_squeezed_dimension_is_one_element() -> None:
    spec = pl.BlockSpec((None, 8, 128), lambda b, i: (b, i, 0))
    x = copied("float32", (3, 16, 128), spec, grid=(3, 2))
    assert (x.moves, x.bytes, x.block, x.vmem) == (6, 24 * KIB, (None, 8, 128), 8 * KIB)


def test_element_windows_overlap_and_are_not_cut() -> None:
    def spec(step: int) -> pl.BlockSpec:
        return pl.BlockSpec((pl.Element(16), pl.Element(128)), lambda i: (step * i, 0))

    x = copied("float32", (40, 128), spec(8), pl.BlockSpec((16, 128), lambda i: (i, 0)), grid=(4,))
    assert (x.moves, x.bytes, x.least) == (4, 4 * 8 * KIB, 20 * KIB)
    x = copied("float32", (36, 128), spec(16), grid=(3,))
    assert (x.bytes, x.padding) == (3 * 8 * KIB, 3 * 8 * KIB - 36 * 128 * 4)


@pytest.mark.parametrize(
    ("dtype", "sizes", "stored"),
    [
        ("float32", (64, 1), 64 * 128 * 4),
        ("float32", (1, 512), 512 * 4),
        ("bfloat16", (1, 512), 2 * 512 * 2),
        ("float32", (3, 128), 4 * 128 * 4),
        ("bfloat16", (9, 128), 16 * 128 * 2),
        ("int8", (2, 1, 128), 2 * 4 * 128),
        ("bool", (8, 128), 8 * 128 * 4),
        ("float32", (1500,), 1536 * 4),
        ("bfloat16", (100,), 256 * 2),
    ],
)
def test_whole_tiles_are_moved(dtype: str, sizes: tuple[int, ...], stored: int) -> None:
    zeros = (0,) * len(sizes)
    x = copied(dtype, sizes, pl.BlockSpec(sizes, lambda i: zeros))
    bits = 32 if dtype == "bool" else jnp.dtype(dtype).itemsize * 8
    assert (x.bytes, x.stored) == (stored, stored)
    assert x.padding == stored - int(np.prod(sizes)) * bits // 8
    assert x.vmem == -(-stored // KIB) * KIB  # one copy; whole KiB


def test_blocks_of_rank_one_at_the_edge() -> None:
    x = copied("float32", (1100,), pl.BlockSpec((256,), lambda i: (i,)), grid=(5,))
    assert (x.moves, x.bytes) == (5, 4 * 1024 + 512)


def test_a_single_element_comes_along() -> None:
    kernel = on_v5e(*copies("float32", (1, 1), pl.BlockSpec((1, 1), lambda i: (0, 0))))
    x, o = counted(kernel).operands
    assert (x.bytes, x.note, o.bytes, o.note) == (0, NO_DMA, 512, "")
    assert counted(kernel).unknown == ()
    steps = np.zeros((1, 2), np.int32)
    assert [bytes_per_step(of, steps).tolist() for of in kernel.call.operands] == [[0], [512]]


@pytest.mark.parametrize(
    ("sizes", "bits", "says"),
    [
        ((64, 1), 32, "its last dimension, 1, is padded to 128"),
        ((12, 128), 16, "its second-to-last dimension, 12, is padded to 16"),
        (
            (2, 5, 200),
            32,
            "its second-to-last dimension, 5, is padded to 8 "
            "and its last dimension, 200, is padded to 256",
        ),
        ((100,), 32, "its last dimension, 100, is padded to 128"),
        ((16, 128), 32, ""),
        ((), 32, ""),
    ],
)
def test_padding_in_words(sizes: tuple[int, ...], bits: int, says: str) -> None:
    assert block_sizes.describe_padding(sizes, bits) == says


def test_tiles_of_narrow_elements() -> None:
    assert [block_sizes.tile_shape((64, 128), bits)[0] for bits in (32, 16, 8, 4)] == [8, 8, 8, 8]
    assert [block_sizes.tile_shape((1, 128), bits)[0] for bits in (32, 16, 8, 4)] == [1, 2, 4, 8]
    assert [block_sizes.tile_shape((128,), bits) for bits in (32, 16, 8)] == [
        (128,),
        (256,),
        (512,),
    ]
    assert block_sizes.tile_shape((), 32) == ()


# ---- memory ----


def test_a_block_that_is_buffered_once() -> None:
    once = pl.BlockSpec((8, 128), lambda i: (i, 0), pipeline_mode=pl.Buffered(1))
    x = copied("float32", (32, 128), once, ROWS, grid=(4,))
    assert (x.moves, x.vmem) == (4, 4 * KIB)


def test_an_axis_of_one_step_moves_no_block() -> None:
    spec = pl.BlockSpec((8, 128), lambda i, j: (i, 0))
    assert copied("float32", (32, 128), spec, grid=(1, 4)).vmem == 4 * KIB


def own_copies(condition: bool) -> TracedKernel:
    """Eight rows of x into each block of the output, by hand; on some steps or on all."""

    def kernel(x_ref: Any, o_ref: Any, sem: Any) -> None:
        @pl.when(pl.program_id(0) > 0 if condition else True)
        def _() -> None:
            pltpu.sync_copy(x_ref.at[pl.ds(0, 8)], o_ref)

    def launch(x: Any) -> Any:
        return pl.pallas_call(
            kernel,
            grid=(4,),
            in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
            out_specs=ROWS,
            out_shape=jax.ShapeDtypeStruct((32, 128), jnp.float32),
            scratch_shapes=[pltpu.SemaphoreType.DMA],
        )(x)

    return on_v5e(launch, shape("float32", 32, 128))


def test_the_kernels_own_copies_are_not_guessed() -> None:
    found = counted(own_copies(condition=True))
    x, o, sem = found.operands
    assert (x.moves, x.bytes, x.least, x.vmem, x.note) == (None, None, None, 0, BY_THE_KERNEL)
    assert x.by_hand
    assert not o.by_hand
    assert (sem.bytes, sem.vmem) == (0, 0)
    assert found.unknown == ("x_ref: the kernel copies it itself (under a condition)",)
    assert found.bytes == o.bytes == 16 * KIB


def test_the_kernels_own_copies_are_counted_where_the_trace_tells() -> None:
    found = counted(own_copies(condition=False))
    x = found.operands[0]
    assert (x.moves, x.bytes, x.least, x.stored) == (4, 16 * KIB, 16 * KIB, 16 * KIB)
    assert x.by_hand
    assert (found.read, found.written, found.unknown) == (16 * KIB, 16 * KIB, ())


def test_a_copy_within_hbm_is_read_and_written() -> None:
    found = counted(on_v5e(launches.copy_within_hbm, shape("bfloat16", 100, 130)))
    stored = 104 * 256 * 2
    assert (found.read, found.written, found.unknown) == (stored, stored, ())
    assert found.padding == 2 * (stored - 100 * 130 * 2)


def test_two_cores_move_what_each_of_them_moves() -> None:
    found = counted(on_v5e(launches.add_on_two_cores, shape("float32", 256, 128)))
    assert [(row.moves, row.bytes) for row in found.operands] == [(2, 128 * KIB)] * 2


def test_a_buffer_in_hbm_is_copied_too() -> None:
    def launch(x: Any) -> Any:
        def kernel(x_ref: Any, o_ref: Any, buffer: Any) -> None:
            pltpu.sync_copy(x_ref, buffer)
            pltpu.sync_copy(buffer, o_ref)

        return launches.launched(kernel, x, scratch_types=[pltpu.HBM(x.shape, x.dtype)])(x)

    found = counted(on_v5e(launch, shape("float32", 32, 128)))
    assert [row.bytes for row in found.operands] == [16 * KIB, 16 * KIB, 32 * KIB]
    assert (found.read, found.written) == (32 * KIB, 32 * KIB)


def test_refs_that_are_written_in_place_count_as_written() -> None:
    found = counted(on_v5e(launches.add_in_core_map, shape("float32", 32, 128)))
    assert (found.read, found.written) == (16 * KIB, 16 * KIB)


def test_blocks_in_smem_are_moved_too_but_take_no_vmem() -> None:
    def kernel(s_ref: Any, x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] * s_ref[0, 0]

    def launch(s: Any, x: Any) -> Any:
        return pl.pallas_call(
            kernel,
            grid=(4,),
            in_specs=[pl.BlockSpec((8, 4), lambda i: (i, 0), memory_space=pltpu.SMEM), ROWS],
            out_specs=ROWS,
            out_shape=jax.ShapeDtypeStruct((32, 128), jnp.float32),
        )(s, x)

    s = rows(on_v5e(launch, shape("float32", 30, 4), shape("float32", 32, 128)))["s_ref"]
    assert (s.moves, s.bytes, s.vmem) == (4, 4 * 4 * KIB, 0)


# ---- what can't be counted ----


def call(*operands: Operand) -> KernelCall:
    return KernelCall("kernel", (2,), operands)


@pytest.mark.parametrize("first", [-8, 32])
def test_a_block_outside_of_the_array_is_named(first: int) -> None:
    x = Operand("x", Role.INPUT, F32, (8, 128), "default", axes=(0,))
    found = traffic(call(x), (2,), [np.array([[first, 0], [0, 0]], np.int32)])
    assert found.unknown == (f"x: {OUTSIDE}",)
    assert found.operands[0].vmem == 8 * KIB


def test_a_dtype_of_unknown_width_is_named() -> None:
    x = Operand("x", Role.INPUT, ArrayType("key<fry>", (2,)), (2,), "default")
    (reason,) = traffic(call(x), (2,), [np.zeros((2, 1), np.int32)]).unknown
    assert "key<fry>" in reason


def test_the_result_crosses_to_another_process() -> None:
    found = counted(matmul("ijk"))
    assert codec.unpack(Traffic, codec.pack(found)) == found


# ---- drawn block specs ----


@pytest.mark.parametrize("drawn", list(draw(seed=1, count=16)), ids=str)
def test_drawn_blocks_are_counted_as_a_loop_counts_them(drawn: Any) -> None:
    kernel = on_v5e(drawn.launch, drawn.argument)
    blocks = kernel.block_positions()
    expected = {
        operand.name: _looped(operand, starts)
        for operand, starts in zip(kernel.call.operands, blocks.starts, strict=True)
        if starts is not None
    }
    assert moved_bytes(kernel) == {name: moved for name, (moved, _) in expected.items()}
    least = {row.name: row.least for row in counted(kernel).operands}
    assert least == {name: once for name, (_, once) in expected.items()}


def _looped(operand: Operand, starts: Any) -> tuple[int, int]:
    """Bytes moved, and bytes of the different blocks, step by step in plain Python."""
    steps = [tuple(at) for at in starts.tolist()]
    if operand.role is Role.OUTPUT:
        steps.reverse()  # written back when left is fetched when entered, seen from the end
    sizes = {at: _block_bytes(operand, at) for at in steps}
    entered = [at for before, at in zip([None, *steps], steps, strict=False) if at != before]
    return sum(sizes[at] for at in entered), sum(sizes.values())


def _block_bytes(operand: Operand, at: tuple[int, ...]) -> int:
    width = jnp.dtype(operand.array.dtype).itemsize
    inside = [
        min(b or 1, n - s) for b, n, s in zip(operand.block, operand.array.shape, at, strict=True)
    ]
    if len(inside) == 1:
        return -(-inside[0] * width // 512) * 512
    rows = 8
    while rows // 2 >= max(operand.array.shape[-2], 4 // width):
        rows //= 2
    inside[-2:] = [-(-inside[-2] // rows) * rows, -(-inside[-1] // 128) * 128]
    return int(np.prod(inside)) * width


def test_blocks_of_a_long_grid_are_counted() -> None:
    """Four million steps, of which a naive count would take minutes."""
    deck = random.Random(0)
    order = np.repeat([deck.randrange(4) for _ in range(2_000_000)], 2)
    starts = np.stack([8 * order, 0 * order], axis=1).astype(np.int32)
    x = Operand("x", Role.INPUT, F32, (8, 128), "default", axes=(0,))
    (row,) = traffic(call(x), (4_000_000,), [starts]).operands
    changes = 1 + int((np.diff(order) != 0).sum())
    assert (row.moves, row.bytes, row.least) == (changes, changes * 4 * KIB, 16 * KIB)
