"""Add small updates to bfloat16 weights, and lose none of them on average.

Goal
    Add an update in float32 to weights in bfloat16. Round each sum at random to one of
    the two neighbouring bfloat16 numbers: the nearer a neighbour, the likelier it is
    the result.

Concept
    Between 1 and 2, bfloat16 numbers are 2**-7 = 0.0078 apart. An update of 0.0005 is a
    sixteenth of that, so 1 + 0.0005, rounded to nearest, is 1. After a thousand such
    updates the weight is still 1, but should be 1.5. Many trainers therefore keep the
    weights in float32 as well. You can also round at random:

            1.0                                                      1.0078
             |--x----------------------------------------------------|
              0.0005                        0.0073
             stays with probability 15/16, moves with 1/16

    The average is exactly x. After a thousand updates the weight is 1.5, give or take
    0.06. This is *stochastic rounding*: each result has an error, but the errors have
    no preferred sign, and in a long sum they mostly cancel.

    A few operations on bits are enough. bfloat16 is the upper half of float32:

        float32     s eeeeeeee mmmmmmm mmmmmmmmmmmmmmmm
        bfloat16    s eeeeeeee mmmmmmm |<-- 16 bits -->|

    The lower half, as a number from 0 to 65535, says how far x is on the way to the
    next bfloat16 number, away from zero. Cutting it off rounds toward zero. Read as
    integers, the next number's bits are this number's bits plus one in the upper half.

    `pltpu.bitcast(x, jnp.uint32)` gives the bits of x as an integer, and a bitcast to
    float32 reverses it. Random bits come as int32, where >> copies the sign; in uint32
    it doesn't. From v5e on, a chip has a rounding operation,
    `pltpu.stochastic_round(x, bits, target_dtype=jnp.bfloat16)`. Write it by hand once,
    to see how it uses the bits.

    For 8192 x 4096 weights, at 819 GB/s of a v5e's HBM:

        weights in bfloat16       2 + 4 bytes read, 2 written        256 MiB   328 µs
        a float32 copy as well    4 + 4 bytes read, 4 + 2 written    448 MiB   574 µs

    The random bits cost no time: the vector unit waits for HBM anyway.

Shapes
    name       dtype[dims]      memory space   Ref's shape   block
    seed_ref   int32[1]         SMEM           (1,)          whole
    w_ref      bfloat16[M, N]   VMEM           (bm, N)       (i, 0)
    u_ref      float32[M, N]    VMEM           (bm, N)       (i, 0)
    o_ref      bfloat16[M, N]   VMEM           (bm, N)       (i, 0)

Try
    pytest -k stochastic_rounding          stuck?  kata hint stochastic_rounding

Needs     dropout
Read on   Deep Learning with Limited Numerical Precision, https://arxiv.org/abs/1502.02551
"""

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, BFloat16, Float32, Int32


def stochastic_rounding_spec(
    w: BFloat16[Array, "M N"], u: Float32[Array, "M N"], seed: Int32[Array, "1"]
) -> BFloat16[Array, "M N"]:
    """The sum, as a bfloat16 number: `stochastic_rounding_outcomes` says which, and how often."""
    return (w.astype(jnp.float32) + u).astype(jnp.bfloat16)


def stochastic_rounding_outcomes(w, u, seed):
    """The neighbours toward zero and away from it, and how often the second one is the result."""
    x = w.astype(jnp.float32) + u.astype(jnp.float32)
    bits = lax.bitcast_convert_type(x, jnp.uint32)
    upper, lower = bits & jnp.uint32(0xFFFF0000), bits & jnp.uint32(0xFFFF)
    toward, away = (
        lax.bitcast_convert_type(half, jnp.float32) for half in (upper, upper + jnp.uint32(0x10000))
    )
    return [(toward, away, lower / 65536)]


def stochastic_rounding_kernel(seed_ref, w_ref, u_ref, o_ref):
    # BEGIN SOLUTION
    raise NotImplementedError(
        "add u to w in float32, round the sum to bfloat16 at random, and store it"
    )
    # END SOLUTION


def stochastic_rounding(
    w: BFloat16[Array, "M N"],
    u: Float32[Array, "M N"],
    seed: Int32[Array, "1"],
    *,
    bm: int = 128,
) -> BFloat16[Array, "M N"]:
    """Launch: one grid step for each block of bm rows."""
    M, N = w.shape
    rows = pl.BlockSpec((bm, N), lambda i, seed_ref: (i, 0))
    return pl.pallas_call(
        stochastic_rounding_kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(pl.cdiv(M, bm),),
            in_specs=[rows, rows],
            out_specs=rows,
        ),
        out_shape=jax.ShapeDtypeStruct(w.shape, w.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
        name="stochastic_rounding",
    )(seed, w, u)


# ---- Given: inputs and helpers. ----


def stochastic_rounding_inputs(key, *, dtype, M, N):
    """Weights, updates of about a thousandth of them (0 for every eighth weight), and a seed."""
    for_w, for_u, for_seed = jax.random.split(key, 3)
    w = jax.random.normal(for_w, (M, N)).astype(jnp.bfloat16)
    u = jax.random.normal(for_u, (M, N), jnp.float32) / 512
    none = jnp.arange(N) % 8 == 0
    return w, jnp.where(none, 0, u), jax.random.randint(for_seed, (1,), 0, 10_000)


def test_stochastic_rounding(hidden_case):
    hidden_case.grade(stochastic_rounding)
