"""Compute attention's gradient for keys and values, with the scores transposed.

Goal
    Write the body of a kernel that returns dk and dv. For every block of keys,
    it goes over all blocks of queries: keys are the outer axis now, and queries
    the inner one. The launch is given. There is one rule: don't transpose any
    block of p or ds.

Concept
    dq is a sum over keys; dk and dv are sums over queries:

        dq[t] = scale * sum over j of ds[t, j] k[j]
        dk[j] = scale * sum over t of ds[t, j] q[t]
        dv[j] =         sum over t of  p[t, j] do[t]

    A sum has to be finished before its block leaves VMEM. So there are two kernels
    with 3 + 4 matmuls, although 5 would be enough: computing s and dp twice is
    cheaper than adding to unfinished blocks of dq in HBM.

    Look at the two new sums. They run over t, which is the *first* dim of p and
    of ds. The matrix unit sums over the last dim of its left operand, so you
    would have to transpose both in every step, which is cross-lane work. The predicted
    time on a v5e is 1.4 times as long with blocks of 256, and hardly longer with 1024.
    lse and delta would also have to be turned into columns again.

    None of this is needed if you compute the scores the other way round, keys by
    queries. That is the same work for the matrix unit:

                     queries                       lse, delta (1, bq)
                  +-----------+                  +-----------+
            keys  | sT = k qT |                  |||||||||||||  one row for all
                  |           |                  vvvvvvvvvvvvv  rows of sT
                  +-----------+

    lse and delta lie along the lanes, as the queries do in sT, and a load can
    spread one row over all 8 sublanes. pT and dsT are left operands for dv and dk
    as they are.

    So a step needs four matmuls, which sum over these dims of operands in VMEM:

        k, q -> sT      last and last          pT,  do -> dv    last and first
        v, do -> dpT    last and last          dsT, q  -> dk    last and first

    Two sums need two accumulators. flash_backward_dq explains scale and the operands' dtype.

Shapes
    name                 dtype[dims]           memory space   Ref's shape   block
    q_ref, do_ref        q.dtype[B, N, T, H]   VMEM           (bq, H)       (b, n, i, 0)
    k_ref, v_ref         q.dtype[B, N, S, H]   VMEM           (bkv, H)      (b, n, j, 0)
    lse_ref, delta_ref   float32[B, N, 1, T]   VMEM           (1, bq)       (b, n, 0, i)
    dk_ref, dv_ref       q.dtype[B, N, S, H]   VMEM           (bkv, H)      (b, n, j, 0)
    dk_acc, dv_acc       float32[bkv, H]       VMEM scratch   (bkv, H)      -

    The grid is (B, N, S / bkv, T / bq).

Try
    pytest -k flash_backward_dkv            stuck?  kata hint flash_backward_dkv

Needs     flash_backward_dq
Read on   FlashAttention-2, https://arxiv.org/abs/2307.08691
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Float32


def flash_backward_dkv_spec(
    q: Float[Array, "B N T H"],
    k: Float[Array, "B N S H"],
    v: Float[Array, "B N S H"],
    do: Float[Array, "B N T H"],
    lse: Float32[Array, "B N 1 T"],
    delta: Float32[Array, "B N 1 T"],
) -> tuple[Float[Array, "B N S H"], Float[Array, "B N S H"]]:
    """The required results, in plain jax.numpy: dk and dv."""
    scale = q.shape[-1] ** -0.5
    s = jnp.einsum("bnth,bnsh->bnts", q, k) * scale
    p = jnp.exp(s - lse.mT)
    ds = p * (jnp.einsum("bnth,bnsh->bnts", do, v) - delta.mT)
    dk = jnp.einsum("bnts,bnth->bnsh", ds, q) * scale
    dv = jnp.einsum("bnts,bnth->bnsh", p, do)
    return dk.astype(k.dtype), dv.astype(v.dtype)


def flash_backward_dkv_kernel(
    q_ref, k_ref, v_ref, do_ref, lse_ref, delta_ref, dk_ref, dv_ref, dk_acc, dv_acc
):
    scale = q_ref.shape[1] ** -0.5
    last_of_both = (((1,), (1,)), ((), ()))

    # BEGIN SOLUTION
    @pl.when(pl.program_id(3) == 0)
    def _():
        dk_acc[...] = jnp.zeros_like(dk_acc)
        dv_acc[...] = jnp.zeros_like(dv_acc)

    q, do = q_ref[...], do_ref[...]
    s_t = jax.lax.dot_general(k_ref[...], q, last_of_both, preferred_element_type=jnp.float32)
    p_t = jnp.exp(s_t * scale - lse_ref[...])
    dv_acc[...] += jnp.dot(p_t.astype(do.dtype), do, preferred_element_type=jnp.float32)

    dp_t = jax.lax.dot_general(v_ref[...], do, last_of_both, preferred_element_type=jnp.float32)
    ds_t = p_t * (dp_t - delta_ref[...])
    dk_acc[...] += jnp.dot(ds_t.astype(q.dtype), q, preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(3) == pl.num_programs(3) - 1)
    def _():
        dk_ref[...] = (dk_acc[...] * scale).astype(dk_ref.dtype)
        dv_ref[...] = dv_acc[...].astype(dv_ref.dtype)

    # END SOLUTION


def flash_backward_dkv(
    q: Float[Array, "B N T H"],
    k: Float[Array, "B N S H"],
    v: Float[Array, "B N S H"],
    do: Float[Array, "B N T H"],
    lse: Float32[Array, "B N 1 T"],
    delta: Float32[Array, "B N 1 T"],
    *,
    bq: int = 1024,
    bkv: int = 1024,
) -> tuple[Float[Array, "B N S H"], Float[Array, "B N S H"]]:
    """Launch: every block of keys meets all blocks of queries of its head, queries innermost."""
    B, N, T, H = q.shape
    S = k.shape[2]
    of_queries = pl.BlockSpec((None, None, bq, H), lambda b, n, j, i: (b, n, i, 0))
    of_keys = pl.BlockSpec((None, None, bkv, H), lambda b, n, j, i: (b, n, j, 0))
    row = pl.BlockSpec((None, None, 1, bq), lambda b, n, j, i: (b, n, 0, i))
    dk, dv = pl.pallas_call(
        flash_backward_dkv_kernel,
        grid=(B, N, S // bkv, T // bq),
        in_specs=[of_queries, of_keys, of_keys, of_queries, row, row],
        out_specs=[of_keys, of_keys],
        out_shape=[
            jax.ShapeDtypeStruct(k.shape, k.dtype),
            jax.ShapeDtypeStruct(v.shape, v.dtype),
        ],
        scratch_shapes=[pltpu.VMEM((bkv, H), jnp.float32)] * 2,
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "parallel", "arbitrary")
        ),
        name="flash_backward_dkv",
    )(q, k, v, do, lse, delta)
    return dk, dv


# ---- Given: inputs and helpers. ----


def flash_backward_dkv_inputs(key, *, B, N, T, S, H, dtype):
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


def test_flash_backward_dkv(hidden_case):
    hidden_case.grade(flash_backward_dkv)
