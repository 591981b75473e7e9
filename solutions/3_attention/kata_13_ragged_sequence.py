"""Attend to sequences whose lengths no block size divides.

Goal
    Write the grid and the middle of the body of an attention kernel for any T
    and any S. Don't pad anything in HBM. For 8 heads of 4000 tokens with
    H = 128 in bfloat16, padding q, k and v to 4096 and slicing the result would
    move 63 MiB, which takes 81 µs on a v5e. The whole kernel takes 504 µs.

Concept
    `pl.cdiv` gives the tail its own block. Past the edge, the contents of that block
    are undefined: leftovers on a TPU, NaN in the strict interpreter. You have
    seen this with sums of rows. In attention, three operands reach past an edge,
    and each of them needs a different answer:

          k, S rows             scores             p              v, S rows
        +----------+         k's rows        +--------+--+      +----------+
        |   real   |           |             |        |  |      |   real   |
        |          |           v             |        |  |   @  |          |
        +----------+     +--------+--+       |        |  |      +----------+
        |    ?     |     |        | ?|  exp  +--------+--+      |    ?     |
        +----------+  q  |        | ?|  -->  |   ?    |? |      +----------+
                         +--------+--+       +--------+--+
                         |   ?    | ?|
                         +--------+--+

    Rows of q past T become rows of scores, and these become rows of the result.
    All of them are garbage, but no other row reads them, and rows past T are cut off
    on the way to HBM. You don't have to do anything here.

    Rows of k past S become columns of scores. The maximum and the sum of every
    real query go across these columns, so you have to mask them. exp then turns
    them into 0.

    Rows of v past S meet these zeros in p @ v. You might think that nothing is
    left of them. But each element of the product is a sum over all bkv rows, and
    0 times NaN or infinity is NaN. On a TPU, this memory holds whatever another
    kernel left there, and of all bit patterns of bfloat16 or float32, 1 in 256 is
    NaN or infinite. Every test may pass, until one doesn't. JAX's attention
    kernel for GPUs masks neither scores nor values past the last key. It gave wrong
    results for such lengths (issue 27224 there), and now refuses them.

    Only the last block along S reaches past the edge, so all other blocks need no
    masks. (At production size, masks in all of them would cost nothing: the matrix
    unit has more to do.)

Shapes
    name           dtype[dims]           memory space   Ref's shape   block
    q_ref, o_ref   q.dtype[B, N, T, H]   VMEM           (bq, H)       (b, n, i, 0)
    k_ref, v_ref   q.dtype[B, K, S, H]   VMEM           (bkv, H)      (b, n // (N // K), j, 0)
    m_ref, l_ref   float32[bq, 128]      VMEM scratch   (bq, 128)     -
    acc_ref        float32[bq, H]        VMEM scratch   (bq, H)       -

    S is a Python int.

Try
    pytest -k ragged_sequence          stuck?  kata hint ragged_sequence

Needs     ragged_tail, grouped_query_attention
Read on   PagedAttention, https://arxiv.org/abs/2309.06180
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float

LANES = 128
MASK_VALUE = -0.7 * float(jnp.finfo(jnp.float32).max)


def ragged_sequence_spec(
    q: Float[Array, "B N T H"], k: Float[Array, "B K S H"], v: Float[Array, "B K S H"]
) -> Float[Array, "B N T H"]:
    """The required result, in plain jax.numpy."""
    k, v = (jnp.repeat(x, q.shape[1] // k.shape[1], axis=1) for x in (k, v))
    s = jnp.einsum("bnth,bnsh->bnts", q, k) * q.shape[3] ** -0.5
    return jnp.einsum("bnts,bnsh->bnth", jax.nn.softmax(s, axis=-1), v)


def ragged_sequence_kernel(q_ref, k_ref, v_ref, o_ref, m_ref, l_ref, acc_ref, *, S):
    bkv, H = k_ref.shape
    j, last = pl.program_id(3), pl.num_programs(3) - 1

    @pl.when(j == 0)
    def _():
        clear(m_ref, l_ref, acc_ref)

    # BEGIN SOLUTION
    @pl.when(j < last)
    def _():
        attend(scores(q_ref, k_ref), v_ref[...], m_ref, l_ref, acc_ref)

    @pl.when(j == last)
    def _():
        left = S - j * bkv
        s = scores(q_ref, k_ref)
        s = jnp.where(jax.lax.broadcasted_iota(jnp.int32, s.shape, 1) < left, s, MASK_VALUE)
        row = jax.lax.broadcasted_iota(jnp.int32, v_ref.shape, 0)
        v = jnp.where(row < left, v_ref[...], 0)
        attend(s, v, m_ref, l_ref, acc_ref)

    # END SOLUTION

    @pl.when(j == last)
    def _():
        o_ref[...] = (acc_ref[...] / widened(l_ref[...], H)).astype(o_ref.dtype)


def ragged_sequence(
    q: Float[Array, "B N T H"],
    k: Float[Array, "B K S H"],
    v: Float[Array, "B K S H"],
    *,
    bq: int = 512,
    bkv: int = 512,
) -> Float[Array, "B N T H"]:
    """Launch: grouped-query attention for any T and S."""
    B, N, T, H = q.shape
    _, K, S, _ = k.shape
    group = N // K
    # BEGIN SOLUTION
    grid = (B, N, pl.cdiv(T, bq), pl.cdiv(S, bkv))
    # END SOLUTION
    q_spec = pl.BlockSpec((None, None, bq, H), lambda b, n, i, j: (b, n, i, 0))
    kv_spec = pl.BlockSpec((None, None, bkv, H), lambda b, n, i, j: (b, n // group, j, 0))
    return pl.pallas_call(
        jax.tree_util.Partial(ragged_sequence_kernel, S=S),
        grid=grid,
        in_specs=[q_spec, kv_spec, kv_spec],
        out_specs=q_spec,
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        scratch_shapes=[
            pltpu.VMEM((bq, LANES), jnp.float32),
            pltpu.VMEM((bq, LANES), jnp.float32),
            pltpu.VMEM((bq, H), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "parallel", "arbitrary")
        ),
        name="ragged_sequence",
    )(q, k, v)


# ---- Given: inputs and helpers. ----


def ragged_sequence_inputs(key, *, B, N, K, T, S, H, dtype):
    """Make short and long query vectors: scores range from small to far beyond exp's range."""
    q_key, k_key, v_key, length_key = jax.random.split(key, 4)
    length = jnp.exp(jax.random.uniform(length_key, (B, N, T, 1), maxval=3.5))
    # In sixteenths, so that every product and every sum is exact in float32.
    q = jnp.round(jax.random.normal(q_key, (B, N, T, H)) * length * 16) / 16
    k = jnp.round(jax.random.normal(k_key, (B, K, S, H)) * 16) / 16
    # All scores of the first query are below -100.
    low = jnp.where(jnp.arange(H) == H - 1, -192, 0)
    k, q = k.at[..., -1].set(16), q.at[..., -1].set(0).at[:, :, 0].set(low)
    v = jax.random.normal(v_key, (B, K, S, H))
    return q.astype(dtype), k.astype(dtype), v.astype(dtype)


def widened(x, width):
    """Repeat a statistic of 128 equal lanes until it is `width` lanes wide."""
    return jnp.tile(x, (1, width // LANES))


def scores(q_ref, k_ref):
    """Return the scaled scores of a block of queries and a block of keys: float32[bq, bkv]."""
    last_of_both = (((1,), (1,)), ((), ()))
    scale = q_ref.shape[1] ** -0.5
    return scale * jax.lax.dot_general(
        q_ref[...], k_ref[...], last_of_both, preferred_element_type=jnp.float32
    )


def clear(m_ref, l_ref, acc_ref):
    """Before the first block: no score has been seen, and nothing has been summed."""
    m_ref[...] = jnp.full_like(m_ref, MASK_VALUE)
    l_ref[...] = jnp.zeros_like(l_ref)
    acc_ref[...] = jnp.zeros_like(acc_ref)


def attend(s, v, m_ref, l_ref, acc_ref):
    """One step of online softmax: update the sums with a block's scores s and its values v."""
    m_prev = m_ref[...]
    m_next = jnp.maximum(m_prev, jnp.max(s, axis=1, keepdims=True))
    alpha = jnp.exp(m_prev - m_next)
    p = jnp.exp(s - widened(m_next, s.shape[1]))
    m_ref[...] = m_next
    l_ref[...] = alpha * l_ref[...] + jnp.sum(p, axis=1, keepdims=True)
    pv = jnp.dot(p.astype(v.dtype), v, preferred_element_type=jnp.float32)
    acc_ref[...] = widened(alpha, acc_ref.shape[1]) * acc_ref[...] + pv


def test_ragged_sequence(hidden_case):
    hidden_case.grade(ragged_sequence)
