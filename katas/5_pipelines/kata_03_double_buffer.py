"""Write the pipeline of copies yourself: two slots in, two slots out.

Goal
    x and o are in HBM. Write the loop of a kernel that scales the columns of x by w, in
    blocks of bm rows, and replaces negative numbers by 0. While one block is computed, the
    next is copied in, and the previous result is copied out. The launch and two functions
    that describe the copies are given: `bring(i, slot)` copies block i of x to a slot of
    x_ref, and `send(i, slot)` copies a slot of o_ref to block i of o. Write the loop over the
    M / bm blocks; there are at least two.

Concept
    BlockSpecs and emit_pipeline have done this for you so far. A block's copy must start one
    step before the block is needed, and can't overwrite the current block, which is still
    being read. So there are two slots, and steps alternate between them: slot = i % 2. Four
    steps in time:

        step            0       1       2       3
        bring   0->s0   1->s1   2->s0   3->s1
        compute         s0      s1      s0      s1
        send                    s0->0   s1->1   s0->2   s1->3
                |  prologue                     |  epilogue

    The first block must be copied before the first step: this is the *prologue*. After the
    last step, results are still being copied: this is the *epilogue*. In between, all steps
    do the same things. You choose the order, but three conditions must hold:

    -   Before a slot of x_ref is read, its block has arrived.
    -   Before a slot of o_ref is stored to, an earlier step's result has left it.
        Which step was that?
    -   Before a copy is started, its block exists. Use `pl.when(condition)` in the first and
        last steps, where it may not exist.

    A wait needs only a descriptor with the semaphore and the size of the copy that was
    started. So `send(i, slot).wait()` waits for a copy that another iteration has started.
    `sems[0, slot]` count incoming bytes, `sems[1, slot]` outgoing ones.

    Reading and writing 8192 x 4096 numbers in bfloat16 takes 165 µs on a v5e, with blocks of
    256 rows. The same copies one after another take 213 µs.

Shapes
    name    dtype[dims]           memory space   Ref's shape    block
    x_hbm   x.dtype[M, N]         HBM            (M, N)         whole
    w_ref   float32[1, N]         VMEM           (1, N)         whole
    o_hbm   x.dtype[M, N]         HBM            (M, N)         whole
    x_ref   x.dtype[2, bm, N]     VMEM scratch   (2, bm, N)     -
    o_ref   x.dtype[2, bm, N]     VMEM scratch   (2, bm, N)     -
    sems    dma semaphore[2, 2]   SMEM scratch   (2, 2)         -

Try
    pytest -k double_buffer          stuck?  kata hint double_buffer

Needs     async_copy, memory_spaces
Read on   TPU Pipelining, https://docs.jax.dev/en/latest/pallas/tpu/pipelining.html
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Float32


def double_buffer_spec(x: Float[Array, "M N"], w: Float32[Array, "1 N"]) -> Float[Array, "M N"]:
    """The required result, in plain jax.numpy."""
    return jnp.maximum(x * w, 0).astype(x.dtype)


def double_buffer_kernel(x_hbm, w_ref, o_hbm, x_ref, o_ref, sems):
    bm = x_ref.shape[1]
    steps = x_hbm.shape[0] // bm

    def bring(i, slot):
        return pltpu.make_async_copy(x_hbm.at[pl.ds(i * bm, bm)], x_ref.at[slot], sems.at[0, slot])

    def send(i, slot):
        return pltpu.make_async_copy(o_ref.at[slot], o_hbm.at[pl.ds(i * bm, bm)], sems.at[1, slot])

    # BEGIN SOLUTION
    raise NotImplementedError(
        "bring the first block, loop over all blocks while the next arrives and the last leaves, then drain"
    )
    # END SOLUTION


def double_buffer(
    x: Float[Array, "M N"], w: Float32[Array, "1 N"], *, bm: int = 256
) -> Float[Array, "M N"]:
    """Launch: one step; x and o stay in HBM, with two slots in VMEM for each."""
    N = x.shape[1]
    hbm = pl.BlockSpec(memory_space=pltpu.HBM)
    return pl.pallas_call(
        double_buffer_kernel,
        in_specs=[hbm, pl.BlockSpec(memory_space=pltpu.VMEM)],
        out_specs=hbm,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        scratch_shapes=[
            pltpu.VMEM((2, bm, N), x.dtype),
            pltpu.VMEM((2, bm, N), x.dtype),
            pltpu.SemaphoreType.DMA((2, 2)),
        ],
        name="double_buffer",
    )(x, w)


# ---- Given: inputs and helpers. ----


def test_double_buffer(hidden_case):
    hidden_case.grade(double_buffer)
