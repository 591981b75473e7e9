"""Let one block of queries attend to keys that arrive block by block.

Goal
    Write the body of a kernel that computes the same as dot_product_attention,
    but for any number of keys. The grid goes through k and v in blocks of bkv
    rows. The queries stay in VMEM, and there is only one pass.

Concept
    For one query, with weights exp(s - m) over all the keys so far:

        m     the largest score                 one number
        l     the sum of the weights            one number
        acc   the weighted sum of v's rows      H numbers

    The result is acc / l. In online_softmax you saw how m and l take in one more
    block. acc is a sum with the same weights, so it is updated in the same way,
    and divided only once, after the last block. No weight is needed twice:

                 k 0, v 0       k 1, v 1       k 2, v 2              time ->
                    |              |              |
        q  ------> s, p --------> s, p --------> s, p
                    |              |              |
        m, l, acc   o------------->o------------->o----> acc / l --> HBM

    Only one block of scores exists at a time, (T, bkv). k and v are read once.

    Next, look at the shape of m and l. A register has 8 sublanes by 128 lanes. A
    column (T, 1) occupies T / 8 registers, and one lane in each. An array
    (T, 128) occupies just as many registers. The difference is in their use. To
    subtract a column from the scores, its one lane must be spread over all 128.
    That is work for a separate unit, which moves data across lanes, and it has to
    do it every time, register by register. If all lanes already hold the same
    number, there is nothing to spread:

        column        m . . . . . .      128 equal lanes      m m m m m m m
                      m . . . . . .                           m m m m m m m

    For 16 heads of 4096 x 4096 in blocks of 512, flash attention with columns is
    predicted to take 1.76 ms on a v5e and 1.49 ms on a v6e. With 128 equal lanes,
    it takes 1.03 ms and 0.73 ms. So m_ref and l_ref are (T, 128). A row max or a
    row sum combines with them by broadcasting. Where they meet something wider,
    `widened` repeats their registers, which moves no data.

Shapes
    name           dtype[dims]       memory space   Ref's shape   block
    q_ref          q.dtype[T, H]     VMEM           (T, H)        whole
    k_ref, v_ref   q.dtype[S, H]     VMEM           (bkv, H)      (j, 0)
    o_ref          q.dtype[T, H]     VMEM           (T, H)        whole
    m_ref, l_ref   float32[T, 128]   VMEM scratch   (T, 128)      -
    acc_ref        float32[T, H]     VMEM scratch   (T, H)        -

    The grid is (S / bkv,). bkv and H are multiples of 128.

Try
    pytest -k attention_one_q_block         stuck?  kata hint attention_one_q_block

Needs     online_softmax, fused_matmul
Read on   Self-attention Does Not Need O(n^2) Memory, https://arxiv.org/abs/2112.05682
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float

LANES = 128


def attention_one_q_block_spec(
    q: Float[Array, "T H"], k: Float[Array, "S H"], v: Float[Array, "S H"]
) -> Float[Array, "T H"]:
    """The required result, in plain jax.numpy."""
    scores = (q @ k.T) * q.shape[1] ** -0.5
    return jax.nn.softmax(scores, axis=1) @ v


def attention_one_q_block_kernel(q_ref, k_ref, v_ref, o_ref, m_ref, l_ref, acc_ref):
    j = pl.program_id(0)
    bkv, H = k_ref.shape
    scale = H**-0.5
    last_of_both = (((1,), (1,)), ((), ()))
    # BEGIN SOLUTION

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

    @pl.when(j == pl.num_programs(0) - 1)
    def _():
        o_ref[...] = (acc_ref[...] / widened(l_ref[...], H)).astype(o_ref.dtype)

    # END SOLUTION


def attention_one_q_block(
    q: Float[Array, "T H"], k: Float[Array, "S H"], v: Float[Array, "S H"], *, bkv: int = 512
) -> Float[Array, "T H"]:
    """Launch: all queries at once, and one block of keys and values per step."""
    T, H = q.shape
    S, _ = k.shape
    return pl.pallas_call(
        attention_one_q_block_kernel,
        grid=(S // bkv,),
        in_specs=[
            pl.BlockSpec((T, H), lambda j: (0, 0)),
            pl.BlockSpec((bkv, H), lambda j: (j, 0)),
            pl.BlockSpec((bkv, H), lambda j: (j, 0)),
        ],
        out_specs=pl.BlockSpec((T, H), lambda j: (0, 0)),
        out_shape=jax.ShapeDtypeStruct((T, H), q.dtype),
        scratch_shapes=[
            pltpu.VMEM((T, LANES), jnp.float32),
            pltpu.VMEM((T, LANES), jnp.float32),
            pltpu.VMEM((T, H), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("arbitrary",)),
        name="attention_one_q_block",
    )(q, k, v)


# ---- Given: inputs and helpers. ----


def attention_one_q_block_inputs(key, *, T, S, H, dtype):
    """Give each query's scores their own level, high or low, and a slope along the keys."""
    q_key, k_key, v_key, level_key, slope_key = jax.random.split(key, 5)
    level = 150 * jax.random.uniform(level_key, (T,), minval=-1)
    slope = 150 * jax.random.uniform(slope_key, (T,), minval=-1) ** 3
    q = jax.random.normal(q_key, (T, H)).at[..., 0].set(level).at[..., 1].set(slope)
    k = jax.random.normal(k_key, (S, H))
    k = k.at[..., 0].set(H**0.5).at[..., 1].set(jnp.linspace(-1, 1, S) * H**0.5)
    v = jax.random.normal(v_key, (S, H))
    # Sums of products of sixteenths are exact in float32, in any order.
    q, k = jnp.round(16 * q) / 16, jnp.round(16 * k) / 16
    return q.astype(dtype), k.astype(dtype), v.astype(dtype)


def widened(x, width):
    """Repeat a statistic of 128 equal lanes until it is `width` lanes wide."""
    return jnp.tile(x, (1, width // LANES))


def test_attention_one_q_block(hidden_case):
    hidden_case.grade(attention_one_q_block)
