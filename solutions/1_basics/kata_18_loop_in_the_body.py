"""Follow the peaks of many signals in time, with a loop inside the kernel.

Goal
    x holds B * D signals over T time steps. Write the body of a kernel that computes the
    level of each signal at every time step, like a level meter: it rises at once with |x|,
    and otherwise falls by a sixteenth per time step. The launch and the start of the body are
    given.

        level[t] = max(15/16 * level[t - 1], |x[t]|)       level[-1] = 0

Concept
    Quantized training keeps such a level for every tensor, to choose the next training step's
    scale. Each level depends on the one before, so a kernel with a block of bt time steps
    must compute them one by one:

        moment        0       1       2       3              bt - 1
        x_ref[t]      |x|     |x|     |x|     |x|              |x|
                       |       |       |       |                |
        peak_ref ---> max --> max --> max --> max --> ... ---> max ---> peak_ref
                       |       |       |       |                |
        o_ref[t]      out     out     out     out              out

    A Python `for` runs while the kernel is traced: it repeats its body bt times in the
    program. That is right for four iterations. For 512 iterations of this body, the compiler
    takes six times as long, and the code grows with the block.

        jax.lax.fori_loop(start, stop, body, carry)

    is a loop on the TPU. It calls carry = body(t, carry) for every t and returns the last
    carry. A small carry stays in registers between iterations. Its shape and dtype can't
    change. Keep the level in float32, because 15/16 * level is rounded again in every
    iteration.

    `@pl.loop(start, stop)` is the same loop as a decorator, for bodies without a carry. (With
    `init_carry=`, it has one too, and the name of the body becomes the last carry.) Both
    trace their body once, so neither can set a Python variable outside it.

    Time is x's first dimension, so each iteration works on whole tiles of 8 x 128, and
    x_ref[t] is only an address. If time ran along the rows, x_ref[t] would be one of the 8
    rows of a register, and 7 / 8 of each operation would be wasted.

    An iteration can be too short. With B = 8 and bd = 128 in bfloat16, HBM moves the 4 KiB of
    an iteration, in and out, in 7.5 cycles of a v5e, but the iteration takes 12: its
    instructions wait for each other, and for the loop. `fori_loop(..., unroll=u)` merges u
    iterations into one, so that loads of later iterations fill the gaps. Choose a u that
    divides bt.

Shapes
    name           dtype[dims]        memory space   Ref's shape   block
    x_ref, o_ref   x.dtype[T, B, D]   VMEM           (bt, B, bd)   (i, 0, j)
    peak_ref       float32[B, bd]     VMEM scratch   (B, bd)       -

    The grid is (D / bd, T / bt), with indices j, i. bt is a multiple of 16.

Try
    pytest -k loop_in_the_body          stuck?  kata hint loop_in_the_body

Needs     tiled_matmul, batched_matmul
Read on   jax.lax.fori_loop,
          https://docs.jax.dev/en/latest/_autosummary/jax.lax.fori_loop.html
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float

DECAY = 15 / 16


def loop_in_the_body_spec(x: Float[Array, "T B D"]) -> Float[Array, "T B D"]:
    """The required result, in plain jax.numpy."""

    def step(level, moment):
        level = jnp.maximum(DECAY * level, jnp.abs(moment))
        return level, level

    return jax.lax.scan(step, jnp.zeros(x.shape[1:], x.dtype), x)[1]


def loop_in_the_body_kernel(x_ref, o_ref, peak_ref):
    @pl.when(pl.program_id(1) == 0)
    def _():
        peak_ref[...] = jnp.zeros_like(peak_ref)

    # BEGIN SOLUTION
    def step(t, peak):
        peak = jnp.maximum(DECAY * peak, jnp.abs(x_ref[t].astype(jnp.float32)))
        o_ref[t] = peak.astype(o_ref.dtype)
        return peak

    peak_ref[...] = jax.lax.fori_loop(0, x_ref.shape[0], step, peak_ref[...], unroll=8)
    # END SOLUTION


def loop_in_the_body(
    x: Float[Array, "T B D"], *, bt: int = 256, bd: int = 128
) -> Float[Array, "T B D"]:
    """Launch: blocks of the same signals follow each other in time; peak_ref carries the level."""
    T, B, D = x.shape
    block = pl.BlockSpec((bt, B, bd), lambda j, i: (i, 0, j))
    return pl.pallas_call(
        loop_in_the_body_kernel,
        grid=(D // bd, T // bt),
        in_specs=[block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct((T, B, D), x.dtype),
        scratch_shapes=[pltpu.VMEM((B, bd), jnp.float32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
        name="loop_in_the_body",
    )(x)


def test_loop_in_the_body(hidden_case):
    hidden_case.grade(loop_in_the_body)
