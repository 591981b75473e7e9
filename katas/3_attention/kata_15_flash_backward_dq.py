"""Compute attention's gradient for the queries, from recomputed scores.

Goal
    Write the body of a kernel that returns dq, the gradient of the loss with
    respect to q. The forward pass left you lse, the log-sum-exp of each row of
    scaled scores, and flash_backward_delta left you delta. There is no mask yet.

Concept
    The backward pass needs all of p. Keeping p is out of the question: for 8
    heads of 4096 x 4096 it takes 256 MiB in bfloat16, while q takes 8 MiB. Flash
    attention is fast because p never was in HBM. So p is computed again, one
    block at a time, and this time without a running maximum:

        forward      m and l are known when a row of blocks ends
                     lse = m + log(l)                           4 bytes per query
        backward     p = exp(s) / sum(exp(s)) = exp(s - lse)    final at once

    exp(s - lse) can't overflow, since lse is at least as large as any score of its
    row.

    The rest is one chain for a block of queries and a block of keys. It has three
    matmuls; the forward pass has two:

          q ---+                       do ---+
               +-- s = scale q kT            +-- dp = do vT
          k ---+      |                v ----+       |
                      v                              v
                p = exp(s - lse)  ------>  ds = p * (dp - delta)
                                                 |
                              dq += ds k * scale +      over all blocks of keys

    scale appears twice. s is the *scaled* score, as it was when lse was computed.
    And ds is the gradient of s, not of q kT, so dq needs that factor as well. It
    is the same for all terms of the sum. So you can apply it once to the (bq, H)
    numbers of the complete sum, and not in every step to (bq, bkv) numbers.

    lse and delta come as rows, which are dense in HBM. Here you need
    columns: `x[:, None]` turns a vector (n,) into a column (n, 1).

    Both operands of the third matmul should have the inputs' dtype; sums float32.

Shapes
    name                    dtype[dims]           memory space   Ref's shape   block
    q_ref, do_ref, dq_ref   q.dtype[B, N, T, H]   VMEM           (bq, H)       (b, n, i, 0)
    k_ref, v_ref            q.dtype[B, N, S, H]   VMEM           (bkv, H)      (b, n, j, 0)
    lse_ref, delta_ref      float32[B, N, 1, T]   VMEM           (1, bq)       (b, n, 0, i)
    acc_ref                 float32[bq, H]        VMEM scratch   (bq, H)       -

    The grid is (B, N, T / bq, S / bkv).

Try
    pytest -k flash_backward_dq             stuck?  kata hint flash_backward_dq

Needs     flash_backward_delta, flash_attention
Read on   FlashAttention-2, https://arxiv.org/abs/2307.08691
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Float32


def flash_backward_dq_spec(
    q: Float[Array, "B N T H"],
    k: Float[Array, "B N S H"],
    v: Float[Array, "B N S H"],
    do: Float[Array, "B N T H"],
    lse: Float32[Array, "B N 1 T"],
    delta: Float32[Array, "B N 1 T"],
) -> Float[Array, "B N T H"]:
    """The required result, in plain jax.numpy."""
    scale = q.shape[-1] ** -0.5
    s = jnp.einsum("bnth,bnsh->bnts", q, k) * scale
    p = jnp.exp(s - lse.mT)
    ds = p * (jnp.einsum("bnth,bnsh->bnts", do, v) - delta.mT)
    return (jnp.einsum("bnts,bnsh->bnth", ds, k) * scale).astype(q.dtype)


def flash_backward_dq_kernel(q_ref, k_ref, v_ref, do_ref, lse_ref, delta_ref, dq_ref, acc_ref):
    scale = q_ref.shape[1] ** -0.5
    last_of_both = (((1,), (1,)), ((), ()))

    # BEGIN SOLUTION
    raise NotImplementedError(
        "recompute p from lse, then ds from p, dp and delta; sum ds k over the blocks of keys; scale and store the sum"
    )
    # END SOLUTION


def flash_backward_dq(
    q: Float[Array, "B N T H"],
    k: Float[Array, "B N S H"],
    v: Float[Array, "B N S H"],
    do: Float[Array, "B N T H"],
    lse: Float32[Array, "B N 1 T"],
    delta: Float32[Array, "B N 1 T"],
    *,
    bq: int = 1024,
    bkv: int = 1024,
) -> Float[Array, "B N T H"]:
    """Launch: every block of queries meets all blocks of keys of its head, keys innermost."""
    B, N, T, H = q.shape
    S = k.shape[2]
    of_queries = pl.BlockSpec((None, None, bq, H), lambda b, n, i, j: (b, n, i, 0))
    of_keys = pl.BlockSpec((None, None, bkv, H), lambda b, n, i, j: (b, n, j, 0))
    row = pl.BlockSpec((None, None, 1, bq), lambda b, n, i, j: (b, n, 0, i))
    return pl.pallas_call(
        flash_backward_dq_kernel,
        grid=(B, N, T // bq, S // bkv),
        in_specs=[of_queries, of_keys, of_keys, of_queries, row, row],
        out_specs=of_queries,
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        scratch_shapes=[pltpu.VMEM((bq, H), jnp.float32)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "parallel", "arbitrary")
        ),
        name="flash_backward_dq",
    )(q, k, v, do, lse, delta)


# ---- Given: inputs and helpers. ----


def flash_backward_dq_inputs(key, *, B, N, T, S, H, dtype):
    """Some queries attend to many keys, some to few with scores above 100; lse and delta match."""
    q, k, v, do = jax.random.normal(key, (4, B, N, max(T, S), H))
    sharpness = 1.0 + jnp.arange(T)[:, None] * 7 % 40
    # In sixteenths, so that every product and every sum is exact in float32.
    q, k = jnp.round(16 * q[:, :, :T] * sharpness) / 16, jnp.round(16 * k[:, :, :S]) / 16
    q, do = q.astype(dtype), (do[:, :, :T] / sharpness**2).astype(dtype)
    k, v = k.astype(dtype), v[:, :, :S].astype(dtype)
    s = jnp.einsum("bnth,bnsh->bnts", q, k, preferred_element_type=jnp.float32) * H**-0.5
    lse = jax.nn.logsumexp(s, axis=-1, keepdims=True)
    o = jnp.einsum("bnts,bnsh->bnth", jnp.exp(s - lse), v.astype(jnp.float32))
    delta = jnp.sum(o * do, axis=-1, keepdims=True)
    return q, k, v, do, lse.mT, delta.mT


def test_flash_backward_dq(hidden_case):
    hidden_case.grade(flash_backward_dq)
