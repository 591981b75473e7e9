"""Copies of kernels that communicate, counted chip by chip, also under conditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import PartitionSpec as P

from pallascope.kernels import TracedLaunch, for_chip
from pallascope.kernels.manual_dma import CONDITIONAL, Dma, Dmas
from pallascope.model import Route
from pallascope.tpu.chips import named

RING = (("x", 4),)
X = jax.ShapeDtypeStruct((4 * 32, 128), jnp.float32)
ROWS = (32, 128)
SIZE = 32 * 128 * 4


@pytest.fixture(autouse=True, scope="module")
def cpu() -> None:
    jax.config.update("jax_platforms", "cpu")


def copied(kernel: Callable[..., None], *, grid: tuple[int, ...] = ()) -> Dmas:
    """The copies of a kernel on each chip of a ring, from its rows of x to an output like them."""

    def part(x: jax.Array) -> jax.Array:
        hbm = pl.BlockSpec(memory_space=pl.ANY)
        return pl.pallas_call(
            kernel,
            grid=grid,
            in_specs=[hbm],
            out_specs=hbm,
            out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
            scratch_shapes=[
                pltpu.VMEM(ROWS, jnp.float32),
                pltpu.SMEM((1,), jnp.int32),
                pltpu.SemaphoreType.DMA((2,)),
            ],
        )(x)

    def launch(x: jax.Array) -> jax.Array:
        mesh = jax.sharding.get_abstract_mesh()
        return jax.shard_map(part, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)(x)

    chip = named("v5e")
    with for_chip(chip.kind, chip.cores, RING):
        (found,) = TracedLaunch.of(launch, [X], {}).kernels([X])
        return found.copies()


def to_right(source: Any, target: Any, sems: Any) -> Any:
    right = jax.lax.rem(jax.lax.axis_index("x") + 1, jax.lax.axis_size("x"))
    return pltpu.make_async_remote_copy(source, target, sems.at[0], sems.at[1], device_id=(right,))


def test_a_condition_on_the_chip_counts_for_the_chip_that_sends_most() -> None:
    def kernel(x_ref: Any, o_ref: Any, _rows: Any, _flag: Any, sems: Any) -> None:
        for _turn in range(2):

            @pl.when(jax.lax.axis_index("x") == 2)
            def _() -> None:
                to_right(x_ref, o_ref, sems).start()

    found = copied(kernel)
    assert found.sent == 2 * SIZE
    assert found.unknown == ("",) * 5
    assert set(found.known) == {Dma(0, True, ROWS, 2), Dma(1, False, ROWS, 2)}


def test_a_condition_on_the_hop_of_a_loop() -> None:
    def kernel(x_ref: Any, o_ref: Any, _rows: Any, _flag: Any, sems: Any) -> None:
        @pl.loop(0, 4)
        def _(hop: Any) -> None:
            @pl.when(hop < 3)
            def _() -> None:
                to_right(x_ref.at[pl.ds(hop * 8, 8)], o_ref.at[pl.ds(0, 8)], sems).start()

    assert copied(kernel).sent == 3 * SIZE // 4


def test_a_loop_whose_length_is_the_chip_s_number() -> None:
    def kernel(x_ref: Any, o_ref: Any, _rows: Any, _flag: Any, sems: Any) -> None:
        @pl.loop(0, jax.lax.axis_index("x"))
        def _(_turn: Any) -> None:
            to_right(x_ref, o_ref, sems).start()

    assert copied(kernel).sent == 3 * SIZE


def test_steps_of_a_grid_are_counted_one_by_one() -> None:
    def kernel(x_ref: Any, o_ref: Any, _rows: Any, _flag: Any, sems: Any) -> None:
        @pl.when(pl.program_id(0) * 2 < pl.num_programs(0))
        def _() -> None:
            to_right(x_ref, o_ref, sems).start()

    found = copied(kernel, grid=(5,))
    assert (found.sent, found.each_step) == (3 * SIZE, False)


def test_what_a_pipeline_within_copies() -> None:
    def kernel(x_ref: Any, o_ref: Any, _rows: Any, _flag: Any, sems: Any) -> None:
        to_right(x_ref, o_ref, sems).start()

        def body(one_ref: Any, other_ref: Any) -> None:
            other_ref[...] = one_ref[...]

        block = pl.BlockSpec((8, 128), lambda i: (jax.lax.div(i, 2), 0))
        pltpu.emit_pipeline(body, grid=(8,), in_specs=[block], out_specs=[block])(x_ref, o_ref)

    found = copied(kernel)
    assert set(found.known) == {
        Dma(0, True, ROWS, 1),
        Dma(1, False, ROWS, 1),
        Dma(0, True, (8, 128), 4),
        Dma(1, False, (8, 128), 4),
    }


def test_a_condition_on_what_is_read_remains_unknown() -> None:
    def kernel(x_ref: Any, o_ref: Any, _rows: Any, flag: Any, sems: Any) -> None:
        @pl.when(flag[0] > 0)
        def _() -> None:
            to_right(x_ref, o_ref, sems).start()

    found = copied(kernel)
    assert found.sent is None
    assert found.of(0) is None
    assert found.unknown[0] == CONDITIONAL


def multiplied(order: str) -> float | None:
    """The part that is covered where a kernel starts a copy, waits and multiplies in this order."""

    def kernel(x_ref: Any, o_ref: Any, rows: Any, _flag: Any, sems: Any) -> None:
        copy = to_right(x_ref, o_ref, sems)

        def multiply() -> None:
            rows[...] = rows[...] + jnp.dot(rows[...], rows[...].T @ rows[...])

        doing = {"s": copy.start, "r": copy.wait_recv, "o": copy.wait_send, "m": multiply}
        for one in order:
            doing[one]()

    return copied(kernel).covered


@pytest.mark.parametrize(
    ("order", "covered"),
    [("smro", 1.0), ("srmo", 0.0), ("msro", 0.0), ("somr", 1.0), ("smrom", 0.5), ("sro", None)],
)
def test_which_products_are_covered(order: str, covered: float | None) -> None:
    assert multiplied(order) == covered


def test_the_ways_that_copies_take() -> None:
    def kernel(x_ref: Any, o_ref: Any, _rows: Any, _flag: Any, sems: Any) -> None:
        me, n = jax.lax.axis_index("x"), jax.lax.axis_size("x")
        for further in (1, 1, 3, 2):
            pltpu.make_async_remote_copy(
                x_ref, o_ref, sems.at[0], sems.at[1], device_id=(jax.lax.rem(me + further, n),)
            ).start()

    assert set(copied(kernel).routes or ()) == {
        Route((("x", 1),), 2 * SIZE),
        Route((("x", -1),), SIZE),
        Route((("x", 2),), SIZE // 2),
        Route((("x", -2),), SIZE // 2),
    }


def test_a_chip_that_is_read_has_no_way() -> None:
    def kernel(x_ref: Any, o_ref: Any, _rows: Any, flag: Any, sems: Any) -> None:
        pltpu.make_async_remote_copy(
            x_ref, o_ref, sems.at[0], sems.at[1], device_id=(flag[0],)
        ).start()

    found = copied(kernel)
    assert (found.sent, found.routes) == (SIZE, None)
