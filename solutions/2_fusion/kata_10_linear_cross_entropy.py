"""Compute the loss of every token without storing the logits in HBM.

Goal
    Write the body of a kernel that multiplies tokens by the rows of w, one row for
    each word of the vocabulary, and returns two numbers for each token:

        logits = x @ w.T                                       [T, V], never stored
        lse[t]  = log(sum over v of exp(logits[t, v]))
        loss[t] = lse[t] - logits[t, labels[t]]

    The loss of a token whose label is IGNORE is 0. Neither T nor V need be a multiple
    of its block. The launch is given.

Concept
    With 4096 tokens of 2304 numbers and 128,256 words, x has 18 MiB, w 564 MiB, and the
    result 32 KiB. The float32 logits in between have 2004 MiB: they, not the matmul,
    limit the training batch size.

                       moved       of it logits    time
        XLA            4590 MiB    4008 MiB        22.5 ms, by its own estimate
        this kernel    2273 MiB    none            13.3 ms

    The products take 12.3 ms of each. A running log-sum-exp needs two numbers: m, the
    largest logit so far, and l, the sum of exp(logit - m). When a block of words has a
    larger m, all exps so far are relative to the old m, and one factor corrects their
    sum:

                      words ->                          for each token
        tokens   [ block 0 | block 1 | block 2 ]        m' = max(m, block's largest)
                      m, l  ->  m, l  ->  m, l          l' = l * exp(m - m') + block's

    You must subtract m: exp overflows float32 at 88.8, and logits may be larger.

    The label's logit is one element, in one block. A TPU has no cheap way to fetch one
    element, but comparing is free: the sum of all logits whose word is the label has
    one term. Count the word's number from the start of w, not of the block.

    Past row V, w is garbage, which would enter a token's max. Replace these logits by
    -inf *before* the max: its exp is 0.

    Compute the logits as words by tokens, w first. Then every statistic is a row of bt
    lanes, like the labels, and max and sum run down the sublanes, which the vector unit
    does by itself. Across lanes, they would be cross-lane work.

Shapes
    name                     dtype[dims]     memory space   Ref's shape   block
    x_ref                    x.dtype[T, D]   VMEM           (bt, D)       (i, 0)
    w_ref                    x.dtype[V, D]   VMEM           (bv, D)       (j, 0)
    labels_ref               int32[1, T]     VMEM           (1, bt)       (0, i)
    loss_ref, lse_ref        float32[1, T]   VMEM           (1, bt)       (0, i)
    m_ref, l_ref, label_sum  float32[1, bt]  VMEM scratch   (1, bt)       -

    The grid is (pl.cdiv(T, bt), pl.cdiv(V, bv)).

Try
    pytest -k linear_cross_entropy          stuck?  kata hint linear_cross_entropy

Needs     row_softmax, ragged_tail, fused_matmul
Read on   Cut Your Losses in Large-Vocabulary Language Models, https://arxiv.org/abs/2411.09009
"""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Float32, Int32

IGNORE = -100


def linear_cross_entropy_spec(
    x: Float[Array, "T D"], w: Float[Array, "V D"], labels: Int32[Array, "1 T"]
) -> tuple[Float32[Array, "1 T"], Float32[Array, "1 T"]]:
    """The required result, in plain jax.numpy: loss and lse."""
    wide = jnp.promote_types(x.dtype, jnp.float32)
    logits = x.astype(wide) @ w.T.astype(wide)
    lse = jax.nn.logsumexp(logits, axis=1)[None]
    of_label = jnp.take_along_axis(logits, jnp.maximum(labels, 0).T, axis=1).T
    return jnp.where(labels == IGNORE, 0, lse - of_label), lse


def linear_cross_entropy_kernel(
    x_ref, w_ref, labels_ref, loss_ref, lse_ref, m_ref, l_ref, label_sum, *, V
):
    last_of_both = (((1,), (1,)), ((), ()))

    # BEGIN SOLUTION
    j = pl.program_id(1)

    @pl.when(j == 0)
    def _():
        m_ref[...] = jnp.full_like(m_ref, -jnp.inf)
        l_ref[...] = jnp.zeros_like(l_ref)
        label_sum[...] = jnp.zeros_like(label_sum)

    logits = jax.lax.dot_general(
        w_ref[...], x_ref[...], last_of_both, preferred_element_type=jnp.float32
    )
    word = j * w_ref.shape[0] + jax.lax.broadcasted_iota(jnp.int32, logits.shape, 0)
    logits = jnp.where(word < V, logits, -jnp.inf)

    m_prev = m_ref[...]
    m_next = jnp.maximum(m_prev, jnp.max(logits, axis=0, keepdims=True))
    total = jnp.sum(jnp.exp(logits - m_next), axis=0, keepdims=True)
    l_ref[...] = l_ref[...] * jnp.exp(m_prev - m_next) + total
    m_ref[...] = m_next
    of_label = jnp.where(word == labels_ref[...], logits, 0)
    label_sum[...] += jnp.sum(of_label, axis=0, keepdims=True)

    @pl.when(j == pl.num_programs(1) - 1)
    def _():
        lse = m_ref[...] + jnp.log(l_ref[...])
        lse_ref[...] = lse
        loss_ref[...] = jnp.where(labels_ref[...] == IGNORE, 0, lse - label_sum[...])

    # END SOLUTION


def linear_cross_entropy(
    x: Float[Array, "T D"],
    w: Float[Array, "V D"],
    labels: Int32[Array, "1 T"],
    *,
    bt: int = 1024,
    bv: int = 512,
) -> tuple[Float32[Array, "1 T"], Float32[Array, "1 T"]]:
    """Launch: each block of tokens times all words of the vocabulary, block by block."""
    T, D = x.shape
    V, _ = w.shape
    row = pl.BlockSpec((1, bt), lambda i, j: (0, i))
    loss, lse = pl.pallas_call(
        functools.partial(linear_cross_entropy_kernel, V=V),
        grid=(pl.cdiv(T, bt), pl.cdiv(V, bv)),
        in_specs=[
            pl.BlockSpec((bt, D), lambda i, j: (i, 0)),
            pl.BlockSpec((bv, D), lambda i, j: (j, 0)),
            row,
        ],
        out_specs=[row, row],
        out_shape=[jax.ShapeDtypeStruct((1, T), jnp.float32)] * 2,
        scratch_shapes=[pltpu.VMEM((1, bt), jnp.float32)] * 3,
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "arbitrary"),
            # A kernel gets 16 MiB of a v5e's 128 MiB of VMEM, unless it asks for more.
            vmem_limit_bytes=32 * 2**20,
        ),
        name="linear_cross_entropy",
    )(x, w, labels)
    return loss, lse


# ---- Given: inputs and helpers. ----


def linear_cross_entropy_inputs(key, *, T, D, V, dtype):
    """Sure and unsure tokens, logits beyond 88; the last word is a label, some are ignored."""
    x_key, w_key, label_key = jax.random.split(key, 3)
    sharpness = 2.0 ** (jnp.arange(T)[:, None] % 7)
    x = jax.random.normal(x_key, (T, D)) * sharpness * D**-0.5
    w = jax.random.normal(w_key, (V, D))
    # All logits of the first token are below -100.
    x, w = x.at[:, -1].set(0).at[0, -1].set(-40), w.at[:, -1].set(4)
    labels = jax.random.randint(label_key, (1, T), 0, V)
    token = jnp.arange(T)
    labels = jnp.where(token % 5 == 1, V - 1 - token // 5 % 40, labels)
    labels = jnp.where(token % 9 == 4, IGNORE, labels)
    return x.astype(dtype), w.astype(dtype), labels


def test_linear_cross_entropy(hidden_case):
    hidden_case.grade(linear_cross_entropy)
