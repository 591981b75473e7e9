"""Drop elements at random, and drop the same ones again in the backward pass.

Goal
    Write dropout and its gradient. The forward kernel sets `percent` % of all elements
    to zero, at random, and multiplies the others by 100 / (100 - percent), so that the
    result is x on average: multiply in float32, and round once. The gradient has to
    drop exactly the same elements.

Concept
    For the gradient, frameworks keep the mask: a byte for each element, written in the
    forward pass, read in the backward pass. For 8192 x 4096 activations in bfloat16:

        forward    read x, write y          128 MiB   +  write the mask   32 MiB
        backward   read dy, write dx        128 MiB   +  read the mask    32 MiB

    But a computer's random numbers can be repeated: the same seed gives the same bits.
    So backward can draw the mask again, from one integer, whose gradient is None.

    Every TensorCore has a generator in hardware:

        pltpu.prng_seed(a)  or  (a, b)       set its state by one or two int32
        pltpu.prng_random_bits(shape)        int32[shape], the next bits

    A threshold turns the bits into a probability. But mind the sign: as int32, half of
    them are negative. pltpu.bitcast(bits, jnp.uint32) reads the same bits as 0 to
    2**32 - 1.

    The generator costs no time: each pass takes 164 µs on a v5e, the time in which HBM
    moves the bytes. With jax.random, the same kernel takes 1639 µs: the vector unit
    computes the bits from a key, in 20 rounds of shifts and adds for each pair of
    words. In return, these bits are the same on every machine. The hardware's bits may
    differ, and they depend on the shape in which they are drawn.

    The state belongs to the core, not to the block. It stays from step to step:

        one core      step 0 -> 1 -> 2 -> 3 -> 4 -> 5     draws, and draws on
        two cores     step 0 -> 1 -> 2                    which block gets which bits
                      step 3 -> 4 -> 5                    depends on who takes which step

    In a parallel grid, nothing may depend on the order of the steps. So every step sets
    the state, from a seed that identifies its block.

    A random result has no single expected value. `dropout_outcomes` lists the possible
    values of each element and how often each occurs. The grader runs the launch three
    times: as it is; with its steps in another order, on one core; and with seed + 1. No
    block may repeat another, in this run, the gradient, or the next seed's run.

Shapes
    name       dtype[dims]     memory space   Ref's shape   block
    seed_ref   int32[1]        SMEM           (1,)          whole
    x_ref      x.dtype[M, N]   VMEM           (bm, bn)      (i, j)
    o_ref      x.dtype[M, N]   VMEM           (bm, bn)      (i, j)

    In the backward pass, x_ref is a block of dy, and o_ref a block of dx.

Try
    pytest -k dropout          stuck?  kata hint dropout

Needs     scale_2d, softmax_backward
Read on   Dropout, https://jmlr.org/papers/v15/srivastava14a.html
"""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Int32


def dropout_spec(
    x: Float[Array, "M N"], dy: Float[Array, "M N"], seed: Int32[Array, "1"]
) -> tuple[Float[Array, "M N"], Float[Array, "M N"]]:
    """The averages over all seeds: y and dx."""
    return x, dy


def dropout_outcomes(x, dy, seed, *, percent):
    """For y and dx: the values of a dropped and of a kept element, and how often one is kept."""
    kept = 1 - percent / 100
    return [(0.0, x / kept, kept), (0.0, dy / kept, kept)]


def dropout_kernel(seed_ref, x_ref, o_ref, *, percent):
    # BEGIN SOLUTION
    block = pl.program_id(0) * pl.num_programs(1) + pl.program_id(1)
    pltpu.prng_seed(seed_ref[0], block)
    bits = pltpu.bitcast(pltpu.prng_random_bits(x_ref.shape), jnp.uint32)
    kept = bits >= jnp.uint32(2**32 * percent // 100)
    scaled = x_ref[...].astype(jnp.float32) * (100 / (100 - percent))
    o_ref[...] = jnp.where(kept, scaled, 0).astype(o_ref.dtype)
    # END SOLUTION


def dropped(x, seed, *, percent, bm, bn):
    """One launch of the kernel: a step for each block of bm x bn elements."""
    M, N = x.shape
    blocks = pl.BlockSpec((bm, bn), lambda i, j, seed_ref: (i, j))
    return pl.pallas_call(
        functools.partial(dropout_kernel, percent=percent),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(pl.cdiv(M, bm), pl.cdiv(N, bn)),
            in_specs=[blocks],
            out_specs=blocks,
        ),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel")),
        name="dropout",
    )(seed, x)


# ---- The function, its rules, and the code that ties them together. ----


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4))
def drop(x, seed, percent, bm, bn):
    """Return x with percent % of its elements dropped, and the others scaled."""
    return dropped(x, seed, percent=percent, bm=bm, bn=bn)


def drop_fwd(x, seed, percent, bm, bn):
    """The forward rule: the result of `drop`, and the residuals."""
    # BEGIN SOLUTION
    return drop(x, seed, percent, bm, bn), seed
    # END SOLUTION


def drop_bwd(percent, bm, bn, residuals, dy):
    """The backward rule: a gradient for x and one for seed."""
    # BEGIN SOLUTION
    seed = residuals
    return dropped(dy, seed, percent=percent, bm=bm, bn=bn), None
    # END SOLUTION


drop.defvjp(drop_fwd, drop_bwd)


def dropout(
    x: Float[Array, "M N"],
    dy: Float[Array, "M N"],
    seed: Int32[Array, "1"],
    *,
    percent: int = 10,
    bm: int = 256,
    bn: int = 512,
) -> tuple[Float[Array, "M N"], Float[Array, "M N"]]:
    """Launch: dropout that can be differentiated, and its gradient for dy."""
    y, pullback = jax.vjp(lambda x: drop(x, seed, percent, bm, bn), x)
    return (y, *pullback(dy))


# ---- Given: inputs and helpers. ----


def dropout_inputs(key, *, dtype, M, N):
    """Normally distributed arrays, and a seed."""
    for_x, for_dy, for_seed = jax.random.split(key, 3)
    x = jax.random.normal(for_x, (M, N)).astype(dtype)
    dy = jax.random.normal(for_dy, (M, N)).astype(dtype)
    return x, dy, jax.random.randint(for_seed, (1,), 0, 10_000)


def test_dropout(hidden_case):
    hidden_case.grade(dropout)
