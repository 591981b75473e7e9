"""One kernel of a launch for several devices: on its own, and on all of them at once."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import PartitionSpec as P

from pallascope.kernels import TracedLaunch, for_chip
from pallascope.kernels.lowering import lower
from pallascope.tpu.chips import CHIPS, named

RING = (("x", 4),)
ROWS = jax.ShapeDtypeStruct((32, 128), jnp.float32)


def _to_right(x_ref: jax.Ref, o_ref: jax.Ref, send: jax.Ref, arrived: jax.Ref) -> None:
    me, count = jax.lax.axis_index("x"), jax.lax.axis_size("x")
    barrier = pltpu.get_barrier_semaphore()
    pl.semaphore_signal(barrier, 1, device_id=(jax.lax.rem(me + count - 1, count),))
    pl.semaphore_wait(barrier, 1)
    right = (jax.lax.rem(me + 1, count),)
    pltpu.make_async_remote_copy(x_ref, o_ref, send, arrived, device_id=right).start()


def _doubled(x_ref: jax.Ref, o_ref: jax.Ref, *_: jax.Ref) -> None:
    o_ref[...] = x_ref[...] * 2


def _launched(kernel: Callable[..., None], name: str, collective_id: int | None) -> TracedLaunch:
    def launch(x: jax.Array) -> jax.Array:
        def part(x: jax.Array) -> jax.Array:
            return pl.pallas_call(
                kernel,
                out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
                scratch_shapes=[pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.DMA],
                compiler_params=pltpu.CompilerParams(collective_id=collective_id),
            )(x)

        mesh = jax.sharding.get_abstract_mesh()
        split = jax.shard_map(part, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
        return split(x)

    chip = named(name)
    with for_chip(chip.kind, chip.cores, RING):
        return TracedLaunch.carried(TracedLaunch.of(launch, [ROWS], {}).dumped())


@pytest.mark.parametrize("name", CHIPS)
def test_a_kernel_that_communicates_is_lowered_on_all_devices(name: str) -> None:
    chip = named(name)
    with for_chip(chip.kind, chip.cores, RING):
        (kernel,) = _launched(_to_right, name, 0).kernels([ROWS])
        assert kernel.axes == RING
        assert kernel.arguments[0].shape == (8, 128)
        text = lower(kernel).as_text()
    assert text.count("tpu_custom_call") == 1


def test_a_kernel_that_knows_no_other_device_is_lowered_alone() -> None:
    chip = named("v5e")
    with for_chip(chip.kind, chip.cores, RING):
        launch = _launched(_doubled, "v5e", None)
        (kernel,) = launch.kernels([ROWS])
        assert (kernel.axes, kernel.arguments[0].shape) == ((), (8, 128))
        lower(kernel)
        assert [operation.name for operation in launch.trace().outside] == ["shard_map"]
