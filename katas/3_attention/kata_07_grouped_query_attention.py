"""Let several query heads read one head of keys and values.

Goal
    Grouped-query attention has N query heads, but only K heads of keys and
    values (KV heads): the first N / K query heads share KV head 0, the next
    N / K share KV head 1, and so on. Write the BlockSpecs of the launch. The
    body is exactly the one from flash_attention.

Concept
    A model that generates text one token at a time reads the keys and values of
    all earlier tokens for each new one. They are kept in HBM, and if every query
    head has its own KV head, there are a lot of them. With 64 query heads,
    H = 128 and bfloat16, T = 32768 tokens of one layer take 1 GiB. With 8 KV
    heads, they take 128 MiB. That is why most large models now group their heads:

        query head    0    1    2    3     4    5    6    7        N = 8
                      |    |    |    |     |    |    |    |
                      +----+-+--+----+     +----+-+--+----+
                             |                    |
        KV head              0                    1                K = 2

    In jax.numpy, you would first repeat k and v along their heads. That writes
    N / K copies to HBM, just to read them again, and gives up the memory and
    traffic that grouping was meant to save. A kernel needs no copies. The index
    map decides which block a step gets, and different steps may get the same
    block. The map may divide, multiply, or do anything else with its indices: it
    is scalar arithmetic, a few instructions per step.

    Now the same step of two heads fetches the same block. The block is still
    copied twice, because between the two steps the pipeline goes through all the
    other blocks of the head. But look at what happens when one block holds all
    of S. Then the last step of one head has the same block index as the first
    step of the next head, and nothing moves until the KV head changes:

                      two blocks in S                  one block in S
        n, j       (0,0)  (0,1)  (1,0)  (1,1)     (0,0)  (1,0)  (2,0)  (3,0)
        block        0      1      0      1         0      0      0      0
        copied       x      x      x      x         x

    So if the keys of a sequence fit into VMEM as one block, N / K heads pay for
    one copy, however many blocks T has.

Shapes
    name           dtype[dims]           memory space   Ref's shape   block
    q_ref, o_ref   q.dtype[B, N, T, H]   VMEM           (bq, H)       (b, n, i, 0)
    k_ref, v_ref   q.dtype[B, K, S, H]   VMEM           (bkv, H)      yours
    m_ref, l_ref   float32[bq, 128]      VMEM scratch   (bq, 128)     -
    acc_ref        float32[bq, H]        VMEM scratch   (bq, H)       -

    The grid is (B, N, T / bq, S / bkv). K divides N.

Try
    pytest -k grouped_query_attention          stuck?  kata hint grouped_query_attention

Needs     flash_attention
Read on   GQA: Training Generalized Multi-Query Transformers, https://arxiv.org/abs/2305.13245
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float

LANES = 128


def grouped_query_attention_spec(
    q: Float[Array, "B N T H"], k: Float[Array, "B K S H"], v: Float[Array, "B K S H"]
) -> Float[Array, "B N T H"]:
    """The required result, in plain jax.numpy."""
    group = q.shape[1] // k.shape[1]
    k, v = (jnp.repeat(x, group, axis=1) for x in (k, v))
    s = jnp.einsum("bnth,bnsh->bnts", q, k) * q.shape[3] ** -0.5
    return jnp.einsum("bnts,bnsh->bnth", jax.nn.softmax(s, axis=-1), v)


def grouped_query_attention(
    q: Float[Array, "B N T H"],
    k: Float[Array, "B K S H"],
    v: Float[Array, "B K S H"],
    *,
    bq: int = 512,
    bkv: int = 512,
) -> Float[Array, "B N T H"]:
    """Launch: a grid over the query heads, several of which share a block of k and v."""
    B, N, T, H = q.shape
    _, K, S, _ = k.shape
    # BEGIN SOLUTION
    raise NotImplementedError("write q_spec for q and the result, and kv_spec for k and v")
    # END SOLUTION
    return pl.pallas_call(
        grouped_query_attention_kernel,
        grid=(B, N, T // bq, S // bkv),
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
        name="grouped_query_attention",
    )(q, k, v)


# ---- Given: inputs and helpers. ----


def grouped_query_attention_inputs(key, *, B, N, K, T, S, H, dtype):
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


def grouped_query_attention_kernel(q_ref, k_ref, v_ref, o_ref, m_ref, l_ref, acc_ref):
    j = pl.program_id(3)
    bkv, H = k_ref.shape
    scale = H**-0.5
    last_of_both = (((1,), (1,)), ((), ()))

    @pl.when(j == 0)
    def _():
        m_ref[...] = jnp.full_like(m_ref, -jnp.inf)
        l_ref[...] = jnp.zeros_like(l_ref)
        acc_ref[...] = jnp.zeros_like(acc_ref)

    s = scale * jax.lax.dot_general(
        q_ref[...], k_ref[...], last_of_both, preferred_element_type=jnp.float32
    )
    m_prev = m_ref[...]
    m_next = jnp.maximum(m_prev, jnp.max(s, axis=1, keepdims=True))
    alpha = jnp.exp(m_prev - m_next)
    p = jnp.exp(s - widened(m_next, bkv))
    m_ref[...] = m_next
    l_ref[...] = alpha * l_ref[...] + jnp.sum(p, axis=1, keepdims=True)
    pv = jnp.dot(p.astype(v_ref.dtype), v_ref[...], preferred_element_type=jnp.float32)
    acc_ref[...] = widened(alpha, H) * acc_ref[...] + pv

    @pl.when(j == pl.num_programs(3) - 1)
    def _():
        o_ref[...] = (acc_ref[...] / widened(l_ref[...], H)).astype(o_ref.dtype)


def test_grouped_query_attention(hidden_case):
    hidden_case.grade(grouped_query_attention)
