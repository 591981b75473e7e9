"""Blocks followed step by step: their sums are the traffic's, their places the index maps'."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from pallascope.kernels.lowering import TracedKernel
from pallascope.model import Role
from pallascope.tools import codec
from pallascope.tpu.pipeline_steps import (
    BlockMotion,
    LaunchMotion,
    follow,
    motions,
)
from pallascope.tpu.pipeline_steps import Path as Runs
from pallascope.tpu.traffic import BY_THE_KERNEL, OUTSIDE, bytes_per_step
from tests.pallascope.support.core_map_kernels import (
    add_by_copies,
    add_by_pipeline,
    add_in_core_map,
)
from tests.pallascope.support.launches import copies, draw, on_v5e, shape
from tests.pallascope.support.solved_katas import NAMES, arguments

ROWS = pl.BlockSpec((8, 128), lambda i: (i, 0))


@pytest.fixture(autouse=True, scope="module")
def cpu() -> None:
    jax.config.update("jax_platforms", "cpu")


def where(path: Runs, steps: int) -> np.ndarray[Any, Any]:
    """Where the block starts on each step, as a loop over runs has it."""
    places = np.array(path.starts).reshape(len(path.sizes), -1)
    ends = (*path.first[1:], steps)
    runs = zip(path.first, ends, path.place, strict=True)
    return np.array([places[place] for first, end, place in runs for _ in range(first, end)])


def moved(motion: BlockMotion, position: int) -> list[int]:
    """Bytes by step: an input's before the first step of a run, an output's after its last."""
    path = motion.paths[position]
    assert path is not None
    found = [0] * motion.steps
    out = motion.call.operands[position].role is Role.OUTPUT
    for number, place in enumerate(path.place):
        last = (*path.first, motion.steps)[number + 1] - 1
        found[last if out else path.first[number]] += path.sizes[place]
    return found


def agrees_with_traffic(motion: BlockMotion) -> None:
    for position, (row, path) in enumerate(zip(motion.traffic.operands, motion.paths, strict=True)):
        if row.bytes is None or row.role is Role.SCRATCH:
            continue
        assert path is not None
        assert sum(moved(motion, position)) == row.bytes, row.name
        assert len(path.place) == (row.moves or 1), row.name
        fresh = sum(path.sizes)
        assert min(fresh, row.least or 0) == row.least, row.name
        assert fresh == row.least or motion.call.operands[position].element, row.name


# ---- against traffic, and against the index maps ----


@pytest.mark.parametrize("drawn", list(draw(11, 12)), ids=str)
def test_drawn_launches_are_followed_as_their_index_maps_say(drawn: Any) -> None:
    kernel = on_v5e(drawn.launch, drawn.argument)
    motion = follow(kernel)
    agrees_with_traffic(motion)
    for position, starts in enumerate(kernel.block_positions().starts):
        path = motion.paths[position]
        assert (path is None) == (starts is None)
        if path is None or starts is None:
            continue
        np.testing.assert_array_equal(where(path, motion.steps), starts)
        assert moved(motion, position) == list(
            bytes_per_step(motion.call.operands[position], starts)
        )


@pytest.mark.parametrize("name", NAMES)
def test_solved_ones_move_what_traffic_counts(name: str) -> None:
    launch, args, keywords = arguments(name)
    found = motions(launch, *args, **keywords)
    assert found
    for motion in found:
        agrees_with_traffic(motion)
        assert motion.shown == motion.steps == math.prod(n or 0 for n in motion.traffic.grid)
    assert codec.unpack(LaunchMotion, codec.pack(LaunchMotion(None, found))) == LaunchMotion(
        None, found
    )


# ---- tables ----


def cells(motion: BlockMotion, operand: str, table: str) -> list[int]:
    """Which cell an operand's index map reads on each step."""
    (read,) = (
        read
        for read in motion.reads
        if (motion.labels[read.operand], motion.labels[read.table]) == (operand, table)
    )
    ends = (*read.first[1:], motion.steps)
    spans = zip(read.first, ends, read.cell, strict=True)
    return [cell for first, end, cell in spans for _ in range(first, end)]


def test_visits_read_their_group_and_their_tile() -> None:
    launch, args, keywords = arguments("ragged_grouped_matmul")
    (motion,) = motions(launch, *args, **keywords)
    columns, visits, k_steps = (n or 0 for n in motion.traffic.grid)
    expected = [visit for _ in range(columns) for visit in range(visits) for _ in range(k_steps)]
    assert cells(motion, "x_ref", "m_tile_ids_ref") == expected
    assert cells(motion, "o_ref", "m_tile_ids_ref") == expected
    assert cells(motion, "w_ref", "group_ids_ref") == expected
    assert len(motion.reads) == 3


def test_tables_of_two_dimensions_are_read_row_by_row() -> None:
    launch, args, keywords = arguments("splash_attention")
    (motion,) = motions(launch, *args, **keywords)
    b, n, rows, steps = (n or 0 for n in motion.traffic.grid)
    expected = list(range(rows * steps)) * (b * n)
    for operand in ("k_ref", "v_ref"):
        assert cells(motion, operand, "data_next_ref") == expected
    assert cells(motion, "mask_ref", "mask_next_ref") == expected
    assert motion.tables[1] == tuple(np.asarray(args[5]).reshape(-1).tolist())


def chosen(index_map: Any, table: Any, blocks: int = 4) -> TracedKernel:
    """A copy of `blocks` blocks in the order that an index map finds in a table."""

    def kernel(table_ref: Any, x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...]

    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(blocks,),
        in_specs=[pl.BlockSpec((8, 128), index_map)],
        out_specs=pl.BlockSpec((8, 128), lambda i, table_ref: (i, 0)),
    )
    out = shape("float32", 8 * blocks, 128)
    return on_v5e(pl.pallas_call(kernel, grid_spec=spec, out_shape=out), table, out)


TABLE = np.array([2, 0, 1, 3], np.int32)


def test_what_is_read_may_choose_what_is_read_next() -> None:
    motion = follow(chosen(lambda i, t: (t[t[i]], 0), TABLE))
    first, second = motion.reads
    assert (first.cell, second.cell) == ((0, 1, 2, 3), (2, 0, 1, 3))
    assert motion.paths[1] is not None
    assert motion.paths[1].starts[::2] == (8, 16, 0, 24)


def test_reads_through_a_jitted_function_and_beside_arithmetic() -> None:
    half = jax.jit(lambda i: i // 2)
    motion = follow(chosen(lambda i, t: (t[half(i)] + jnp.int32(1), 0), TABLE))
    (read,) = motion.reads
    assert (read.first, read.cell) == ((0, 2), (0, 1))


def test_a_read_under_a_condition_is_one_where_it_holds() -> None:
    def index_map(i: Any, t: Any) -> Any:
        return jax.lax.cond(i > 1, lambda: t[t[0]], lambda: t[3]), 0

    motion = follow(chosen(index_map, TABLE))
    reads = [(read.first, read.cell) for read in motion.reads]
    assert reads == [((0, 2), (3, -1)), ((0, 2), (-1, 0)), ((0, 2), (-1, 2))]
    assert motion.tables[0] == (2, 0, 1, 3)
    agrees_with_traffic(motion)


def test_a_condition_within_a_condition_needs_both() -> None:
    def index_map(i: Any, t: Any) -> Any:
        inner = lambda: jax.lax.cond(i > 2, lambda: t[1], lambda: 0)  # noqa: E731
        return jax.lax.cond(i > 1, inner, lambda: 3), 0

    (read,) = follow(chosen(index_map, TABLE)).reads
    assert (read.first, read.cell) == ((0, 3), (-1, 1))


def test_reads_in_a_loop_are_not_guessed() -> None:
    def index_map(i: Any, t: Any) -> Any:
        return jax.lax.fori_loop(0, 2, lambda n, sum: sum + t[n], 0) % 4, 0

    (read,) = follow(chosen(index_map, TABLE)).reads
    assert (read.operand, read.table, read.first, read.cell) == (1, 0, (), ())


def test_a_table_of_unknown_contents_is_none() -> None:
    motion = follow(chosen(lambda i, t: (t[i], 0), shape("int32", 4)))
    assert motion.tables[0] is None
    assert [read.first for read in motion.reads] == [()]
    assert motion.paths[1] is None
    assert motion.paths[2] is not None


# ---- edges ----


def test_a_long_grid_is_followed_up_to_a_step() -> None:
    launch, x = copies("float32", (64, 128), ROWS, grid=(8,))
    motion = follow(on_v5e(launch, x), max_steps=3)
    assert (motion.steps, motion.shown) == (8, 3)
    for path in motion.paths:
        assert path is not None
        assert path.first == (0, 1, 2, 3)  # the last tells where the run before it ends
    assert motion.traffic.operands[0].moves == 8


def test_a_grid_of_unknown_size_has_no_steps() -> None:
    def launch(x: Any, n: Any) -> Any:
        def kernel(x_ref: Any, o_ref: Any) -> None:
            o_ref[...] = x_ref[...]

        out = shape("float32", 32, 128)
        call = pl.pallas_call(kernel, grid=(n,), in_specs=[ROWS], out_specs=ROWS, out_shape=out)
        return call(x)

    motion = follow(on_v5e(launch, shape("float32", 32, 128), shape("int32")))
    assert (motion.steps, motion.shown, motion.paths) == (0, 0, (None, None))
    known = follow(on_v5e(launch, shape("float32", 32, 128), np.int32(3)))
    assert known.steps == 3
    assert known.paths[0] is not None


def test_a_block_outside_of_the_array_moves_nothing_that_counts() -> None:
    after = pl.BlockSpec((8, 128), lambda i: (i + 3, 0))
    launch, x = copies("float32", (32, 128), after, ROWS, grid=(4,))
    motion = follow(on_v5e(launch, x))
    assert motion.traffic.operands[0].note == OUTSIDE
    path = motion.paths[0]
    assert path is not None
    assert (path.starts[::2], path.sizes) == ((24, 32, 40, 48), (0, 0, 0, 0))


def test_what_the_kernel_copies_itself_has_no_path() -> None:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = jnp.zeros_like(o_ref)

    everywhere, out = pl.BlockSpec(memory_space=pl.ANY), shape("float32", 32, 128)
    specs: dict[str, Any] = {"in_specs": [everywhere], "out_specs": ROWS, "out_shape": out}
    motion = follow(on_v5e(pl.pallas_call(kernel, grid=(4,), **specs), out))
    assert motion.paths[0] is None
    assert motion.traffic.operands[0].note == BY_THE_KERNEL


@pytest.mark.parametrize("launch", [add_by_copies, add_by_pipeline, add_in_core_map])
def test_a_kernel_over_a_mesh_is_one_step_by_hand(launch: Callable[..., Any]) -> None:
    (motion,) = motions(launch, shape("float32", 256, 128))
    assert (motion.steps, motion.shown) == (1, 1)
    assert set(motion.paths) == {None}
    assert all(row.by_hand for row in motion.traffic.operands)
    assert codec.unpack(BlockMotion, codec.pack(motion)) == motion


def test_an_unknown_chip_is_told() -> None:
    with pytest.raises(ValueError, match="no chip 'v9'"):
        motions(lambda x: x, 1.0, chip="v9")
