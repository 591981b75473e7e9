"""Sum do * o along every row, which attention's gradient needs in advance.

Goal
    Write the body of a kernel for delta[t] = sum over h of do[t, h] * o[t, h].
    o is the result of attention, and do is the gradient of the loss with respect
    to o. The sums are float32, and the kernel stores them as a row: the sums of
    bt queries lie side by side along the lanes. The launch is given.

Concept
    Let s be the scaled scores, p = softmax(s), and o = p v. Softmax mixes the
    elements of each row, so its gradient contains a sum over all keys:

        dp[t, j] = do[t] . v[j]
        ds[t, j] = p[t, j] * (dp[t, j] - sum over all k of p[t, k] * dp[t, k])

    A kernel that sees one block of keys at a time can't know that sum. But
    insert the definition of dp and change the order:

        sum_k p[t, k] (do[t] . v[k])  =  do[t] . (sum_k p[t, k] v[k])  =  do[t] . o[t]

    That is delta: H products instead of S, and no scores in it. Two kernels will
    need it, and one of them visits every block of queries once for each block of
    keys. It would have to fetch o as well, and for T = S = 4096 and blocks of 512
    it would compute the same sums 8 times. Computed in advance, they cost one
    pass over o and do: 16 MiB for 8 heads of 4096 x 128 in bfloat16, which takes
    20.5 µs on a v5e.

    Why a row? A kernel writes an array [T, 1] in tiles of 128 lanes, of which only
    one is used: 16 MiB for these heads, as much as it reads, and XLA then copies it
    to where it is dense. It writes [1, T] as it is: 128 KiB. But the numbers of one
    query lie along the lanes:

               lanes: h                  sum along      what you need
             +-----------+               the lanes
          t  |           |                +-+           lanes: t
          |  |  o * do   |        ->      | |           +--------------+
          v  |           |                | |           | one row      |
             +-----------+                +-+           +--------------+

    A sum along lanes is work for the cross-lane unit. So is turning the column
    into a row, where only one lane in 128 of each register is worth moving. A sum
    *down* a block is mostly additions of whole registers, and the result is a
    row. And the cross-lane unit is best at transposing whole blocks. So
    the order matters: between the fastest and the slowest of the ways that you
    would try first, there is a factor of two.

    (A matmul by ones rounds float32 to bfloat16, or makes six passes.)

Shapes
    name            dtype[dims]           memory space   Ref's shape   block
    o_ref, do_ref   o.dtype[B, N, T, H]   VMEM           (bt, H)       (b, n, i, 0)
    delta_ref       float32[B, N, 1, T]   VMEM           (1, bt)       (b, n, 0, i)

    The grid is (B, N, T / bt).

Try
    pytest -k flash_backward_delta          stuck?  kata hint flash_backward_delta

Needs     attention_one_q_block, blocked_transpose
Read on   FlashAttention, https://arxiv.org/abs/2205.14135
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Float32


def flash_backward_delta_spec(
    o: Float[Array, "B N T H"], do: Float[Array, "B N T H"]
) -> Float32[Array, "B N 1 T"]:
    """The required result, in plain jax.numpy."""
    wide = jnp.promote_types(o.dtype, jnp.float32)
    return jnp.sum(o.astype(wide) * do.astype(wide), axis=-1)[:, :, None, :]


def flash_backward_delta_kernel(o_ref, do_ref, delta_ref):
    # BEGIN SOLUTION
    raise NotImplementedError(
        "multiply the two blocks in float32, sum over the head dim, store the sums of all queries as one row"
    )
    # END SOLUTION


def flash_backward_delta(
    o: Float[Array, "B N T H"], do: Float[Array, "B N T H"], *, bt: int = 2048
) -> Float32[Array, "B N 1 T"]:
    """Launch: one step per block of queries; no step depends on another."""
    B, N, T, H = o.shape
    block = pl.BlockSpec((None, None, bt, H), lambda b, n, i: (b, n, i, 0))
    return pl.pallas_call(
        flash_backward_delta_kernel,
        grid=(B, N, T // bt),
        in_specs=[block, block],
        out_specs=pl.BlockSpec((None, None, 1, bt), lambda b, n, i: (b, n, 0, i)),
        out_shape=jax.ShapeDtypeStruct((B, N, 1, T), jnp.float32),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "parallel")
        ),
        name="flash_backward_delta",
    )(o, do)


def test_flash_backward_delta(hidden_case):
    hidden_case.grade(flash_backward_delta)
