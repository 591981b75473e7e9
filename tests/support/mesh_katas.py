"""Small exercises for several devices: their solutions and keys."""

from __future__ import annotations

_HEAD = '''"""Something on four devices."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float
'''

#: A kernel that knows nothing of other devices, its contracted axis cut.
SPLIT_SUM = f"""{_HEAD}

def NAME_spec(x: Float[Array, "M K"], y: Float[Array, "K N"]) -> Float[Array, "M N"]:
    return x @ y


def _kernel(x_ref, y_ref, o_ref):
    o_ref[...] = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)


def _matmul(x, y, bm):
    return pl.pallas_call(
        _kernel,
        grid=(x.shape[0] // bm,),
        in_specs=[
            pl.BlockSpec((bm, x.shape[1]), lambda i: (i, 0)),
            pl.BlockSpec(y.shape, lambda i: (0, 0)),
        ],
        out_specs=pl.BlockSpec((bm, y.shape[1]), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((x.shape[0], y.shape[1]), jnp.float32),
    )(x, y)


def NAME(
    x: Float[Array, "M K"], y: Float[Array, "K N"], *, mesh, bm: int = 8
) -> Float[Array, "M N"]:
    # BEGIN SOLUTION
    def part(x, y):
        return jax.lax.psum(_matmul(x, y, bm), "x")

    split = jax.shard_map(
        part, mesh=mesh, in_specs=(P(None, "x"), P("x", None)), out_specs=P(), check_vma=False
    )
    return split(x, y)
    # END SOLUTION


def test_NAME(hidden_case):
    hidden_case.grade(NAME)
"""

#: Each device sends its rows to its right neighbour, in the kernel.
TO_RIGHT = f"""{_HEAD}

def NAME_spec(x: Float[Array, "M N"]) -> Float[Array, "M N"]:
    return jnp.roll(x, x.shape[0] // 4, axis=0)


def NAME_kernel(x_ref, o_ref, send_sem, recv_sem):
    # BEGIN SOLUTION
    me, count = jax.lax.axis_index("x"), jax.lax.axis_size("x")
    right, left = jax.lax.rem(me + 1, count), jax.lax.rem(me + count - 1, count)
    barrier = pltpu.get_barrier_semaphore()
    for other in (left, right):
        pl.semaphore_signal(barrier, 1, device_id=(other,))
    pl.semaphore_wait(barrier, 2)
    copy = pltpu.make_async_remote_copy(x_ref, o_ref, send_sem, recv_sem, device_id=(right,))
    copy.start()
    copy.wait()
    # END SOLUTION


def NAME(x: Float[Array, "M N"], *, mesh) -> Float[Array, "M N"]:
    def part(x):
        anywhere = pl.BlockSpec(memory_space=pl.ANY)
        return pl.pallas_call(
            NAME_kernel,
            in_specs=[anywhere],
            out_specs=anywhere,
            out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
            scratch_shapes=[pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.DMA],
            compiler_params=pltpu.CompilerParams(collective_id=0),
        )(x)

    return jax.shard_map(part, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)(x)


def test_NAME(hidden_case):
    hidden_case.grade(NAME)
"""

_KEY = """title = "NAME"
concept = "several devices"
write = "kernel"
todo = ["do it"]
hints = ["a", "b", "c"]
count = 3
outside = ["psum"]

[mesh]
x = 4

[cases]
"""
SPLIT_SUM_KEY = f"""{_KEY}bm = [8, 16]
M = ["2*bm", "3*bm"]
K = [512, 1024]
N = [128, 256]
"""
TO_RIGHT_KEY = f"""{_KEY}M = [32, 64]
N = [128, 256]
"""
