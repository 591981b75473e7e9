"""Chips side by side, moment by moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import PartitionSpec as P

from pallascope.kernels import TracedLaunch, for_chip
from pallascope.model import ActionKind, CommTimeline, DeviceAction
from pallascope.tpu.chips import named

RING = (("x", 4),)
X = jax.ShapeDtypeStruct((4 * 8, 128), jnp.float32)
SIZE = 8 * 128 * 4


@pytest.fixture(autouse=True, scope="module")
def cpu() -> None:
    jax.config.update("jax_platforms", "cpu")


def beside(kernel: Callable[..., None]) -> CommTimeline | None:
    def part(x: jax.Array) -> jax.Array:
        hbm = pl.BlockSpec(memory_space=pl.ANY)
        return pl.pallas_call(
            kernel,
            in_specs=[hbm],
            out_specs=hbm,
            out_shape=jax.ShapeDtypeStruct((4, *x.shape), x.dtype),
            scratch_shapes=[
                pltpu.SemaphoreType.DMA((2,)),
                pltpu.SMEM((1,), jnp.int32),
            ],
            compiler_params=pltpu.CompilerParams(collective_id=0),
        )(x)

    def launch(x: jax.Array) -> jax.Array:
        mesh = jax.sharding.get_abstract_mesh()
        return jax.shard_map(part, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)(x)

    chip = named("v5e")
    with for_chip(chip.kind, chip.cores, RING):
        (found,) = TracedLaunch.of(launch, [X], {}).kernels([X])
        return found.comm_timeline()


def right() -> Any:
    return lax.rem(lax.axis_index("x") + 1, lax.axis_size("x"))


def to_right(x_ref: Any, o_ref: Any, sems: Any) -> Any:
    here = o_ref.at[lax.axis_index("x")]
    return pltpu.make_async_remote_copy(x_ref, here, sems.at[0], sems.at[1], device_id=(right(),))


def test_a_copy_is_there_at_the_next_moment() -> None:
    def kernel(x_ref: Any, o_ref: Any, sems: Any, _flag: Any) -> None:
        begun = pltpu.get_barrier_semaphore()
        pl.semaphore_signal(begun, device_id=(right(),))
        pl.semaphore_wait(begun, 1)
        copy = to_right(x_ref, o_ref, sems)
        copy.start()
        copy.wait()

    found = beside(kernel)
    assert found
    assert (found.chips, found.whole, found.stuck) == (((0,), (1,), (2,), (3,)), True, False)
    barrier = "the barrier semaphore"
    assert [moment[3] for moment in found.moments] == [
        (
            DeviceAction(ActionKind.SIGNALS, to=0, semaphore=barrier, size=1),
            DeviceAction(ActionKind.WAITS, semaphore=barrier, size=1),
        ),
        (
            DeviceAction(ActionKind.GETS, semaphore=barrier, size=1),
            DeviceAction(ActionKind.SENDS, "x_ref", "o_ref[3]", 0, "sems[1]", SIZE),
            DeviceAction(ActionKind.WAITS, semaphore="sems[0]", size=SIZE),
        ),
        (
            DeviceAction(ActionKind.GETS, semaphore="sems[0]", size=SIZE),
            DeviceAction(ActionKind.GETS, semaphore="sems[1]", size=SIZE),
        ),
    ]


def test_chips_that_wait_for_each_other_for_ever() -> None:
    def kernel(x_ref: Any, o_ref: Any, sems: Any, _flag: Any) -> None:
        copy = to_right(x_ref, o_ref, sems)
        copy.wait_recv()
        copy.start()

    found = beside(kernel)
    assert found
    assert found.stuck
    assert (
        found.moments[-1]
        == ((DeviceAction(ActionKind.WAITS, semaphore="sems[1]", size=SIZE),),) * 4
    )


def test_one_chip_that_does_something_else() -> None:
    def kernel(x_ref: Any, o_ref: Any, sems: Any, _flag: Any) -> None:
        @pl.when(lax.axis_index("x") == 2)
        def _() -> None:
            to_right(x_ref, o_ref, sems).start()

    found = beside(kernel)
    assert found
    (moment,) = found.moments[:1]
    assert [len(deeds) for deeds in moment] == [0, 0, 1, 0]


def test_what_depends_on_what_is_read_is_not_drawn() -> None:
    def kernel(_x_ref: Any, _o_ref: Any, _sems: Any, flag: Any) -> None:
        @pl.when(flag[0] > 0)
        def _() -> None:
            pl.semaphore_signal(pltpu.get_barrier_semaphore(), device_id=(right(),))

    assert beside(kernel) is None


def test_what_is_long_is_cut_short() -> None:
    def kernel(x_ref: Any, o_ref: Any, sems: Any, _flag: Any) -> None:
        @pl.loop(0, 100)
        def _(_turn: Any) -> None:
            copy = to_right(x_ref, o_ref, sems)
            copy.start()
            copy.wait()

    found = beside(kernel)
    assert found
    assert not found.whole
    assert 10 < len(found.moments) < 100
