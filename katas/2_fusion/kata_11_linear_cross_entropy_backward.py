"""Compute the gradients of tokens and words from logits that are computed again, twice.

Goal
    Write the gradient of linear_cross_entropy: a helper that computes a block of the
    logits' gradient, the bodies of two kernels that sum it to dx and to dw, the launch
    of the second kernel, and the rule for jax.custom_vjp. Neither T nor V need be a
    multiple of its block.

Concept
    With p = exp(logits - lse), which is softmax, the chain rule gives

        d[v, t] = (p[v, t] - (1 if v is token t's label else 0)) * dloss[t]
        dx[t]   = sum over words  v of d[v, t] * w[v]              [T, D]
        dw[v]   = sum over tokens t of d[v, t] * x[t]              [V, D]

    and d = 0 for an ignored token. dloss is 1/T for each token if the training step
    takes the mean, but can be any number.

    p is as large as the logits. Keeping p from the forward pass would take the 2004 MiB
    that the last kata saved. The *residuals* are arrays that exist anyway, and lse with
    its 16 KiB. The kernels compute the logits again from them:

        forward          dx                      dw
        x w -> logits    x w -> logits -> d      x w -> logits -> d
               |                  d w -> sum            d x -> sum
              lse -------->  over words            over tokens

    Why twice? The two sums run over d in different directions, and a sum has to be
    complete before its block leaves VMEM. With words innermost, dx's block stays, but
    each block of dw would return for each block of tokens; with tokens innermost it is
    the other way round. That is five products in all; XLA does three:

                       moved       for d and logits   time
        XLA            9.5 GiB     7.8 GiB            59.4 ms, by its own estimate
        these          18.8 GiB    none               66.1 ms

    So this saves memory, not time. An axis of the grid that a sum runs over must not be
    parallel: two cores would share its steps, and both would add to the same block,
    which is a race. dx sums over words, and dw over tokens, so their parallel axes
    differ.

    Past the last word, logits *and* w are garbage. A d of 0 doesn't help alone, since 0
    times NaN is NaN: in a sum over words, make both d and w 0; over tokens, d and x.

Shapes
    name                 dtype[dims]      memory space   Ref's shape   block
    x_ref, dx_ref        x.dtype[T, D]    VMEM           (bt, D)       (i, 0)
    w_ref, dw_ref        x.dtype[V, D]    VMEM           (bv, D)       (j, 0)
    labels_ref           int32[1, T]      VMEM           (1, bt)       (0, i)
    lse_ref, dloss_ref   float32[1, T]    VMEM           (1, bt)       (0, i)
    dx_acc               float32[bt, D]   VMEM scratch   (bt, D)       -
    dw_acc               float32[bv, D]   VMEM scratch   (bv, D)       -

    The grid of dx is (pl.cdiv(T, bt), pl.cdiv(V, bv)); that of dw is yours.

Try
    pytest -k linear_cross_entropy_backward     stuck?  kata hint linear_cross_entropy_backward

Needs     linear_cross_entropy, softmax_backward
Read on   Cut Your Losses in Large-Vocabulary Language Models, https://arxiv.org/abs/2411.09009
"""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Float32, Int32

IGNORE = -100


def linear_cross_entropy_backward_spec(
    x: Float[Array, "T D"],
    w: Float[Array, "V D"],
    labels: Int32[Array, "1 T"],
    dloss: Float32[Array, "1 T"],
) -> tuple[Float32[Array, "1 T"], Float[Array, "T D"], Float[Array, "V D"]]:
    """What the launch must compute, in plain jax.numpy: loss, dx and dw."""

    def loss_of(x, w):
        wide = jnp.promote_types(x.dtype, jnp.float32)
        logits = x.astype(wide) @ w.T.astype(wide)
        lse = jax.nn.logsumexp(logits, axis=1)[None]
        of_label = jnp.take_along_axis(logits, jnp.maximum(labels, 0).T, axis=1).T
        return jnp.where(labels == IGNORE, 0, lse - of_label)

    loss, pullback = jax.vjp(loss_of, x, w)
    return (loss, *pullback(dloss.astype(loss.dtype)))


def dlogits(x_ref, w_ref, labels_ref, lse_ref, dloss_ref, i, j, *, T, V):
    """Return block (j, i) of d, words by tokens, in x's dtype; 0 past either edge."""
    last_of_both = (((1,), (1,)), ((), ()))
    bt, bv = x_ref.shape[0], w_ref.shape[0]
    # BEGIN SOLUTION
    raise NotImplementedError(
        "compute the logits again, and from them d = (p - 1 at the label) * dloss; 0 where words or tokens end"
    )
    # END SOLUTION


def dx_kernel(x_ref, w_ref, labels_ref, lse_ref, dloss_ref, dx_ref, dx_acc, *, T, V):
    i, j = pl.program_id(0), pl.program_id(1)
    d = dlogits(x_ref, w_ref, labels_ref, lse_ref, dloss_ref, i, j, T=T, V=V)
    first_of_both = (((0,), (0,)), ((), ()))

    # BEGIN SOLUTION
    raise NotImplementedError(
        "add d's product with w to dx_acc for each block of words; store the sum after the last"
    )
    # END SOLUTION


def dw_kernel(x_ref, w_ref, labels_ref, lse_ref, dloss_ref, dw_ref, dw_acc, *, T, V):
    # BEGIN SOLUTION
    raise NotImplementedError(
        "write the kernel for dw_ref: the same over blocks of tokens, with x instead of w"
    )
    # END SOLUTION


def dw_launch(x, w, labels, lse, dloss, *, bt, bv):
    """Launch dw_kernel: each block of words times all blocks of tokens."""
    T, D = x.shape
    V, _ = w.shape
    # BEGIN SOLUTION
    raise NotImplementedError(
        "set grid, of_tokens, of_words, row and semantics for the launch of dw"
    )
    # END SOLUTION
    return pl.pallas_call(
        functools.partial(dw_kernel, T=T, V=V),
        grid=grid,
        in_specs=[of_tokens, of_words, row, row, row],
        out_specs=of_words,
        out_shape=jax.ShapeDtypeStruct(w.shape, w.dtype),
        scratch_shapes=[pltpu.VMEM((bv, D), jnp.float32)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=semantics, vmem_limit_bytes=32 * 2**20
        ),
        name="dw",
    )(x, w, labels, lse, dloss)


# ---- The function, its rules, and the code that ties them together. ----


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def token_losses(x, w, labels, bt, bv):
    """Return the loss of each token, float32[1, T]."""
    return linear_cross_entropy(x, w, labels, bt=bt, bv=bv)[0]


def token_losses_fwd(x, w, labels, bt, bv):
    """The forward rule: the result of `token_losses`, and the residuals."""
    # BEGIN SOLUTION
    raise NotImplementedError(
        "return from token_losses_fwd the losses, and the arrays that both backward kernels need"
    )
    # END SOLUTION


def token_losses_bwd(bt, bv, residuals, dloss):
    """The backward rule: the gradients for x and w, and None for the labels."""
    # BEGIN SOLUTION
    raise NotImplementedError(
        "launch both kernels in token_losses_bwd, and return a gradient for x, one for w, and None"
    )
    # END SOLUTION


token_losses.defvjp(token_losses_fwd, token_losses_bwd)


def linear_cross_entropy_backward(
    x: Float[Array, "T D"],
    w: Float[Array, "V D"],
    labels: Int32[Array, "1 T"],
    dloss: Float32[Array, "1 T"],
    *,
    bt: int = 512,
    bv: int = 256,
) -> tuple[Float32[Array, "1 T"], Float[Array, "T D"], Float[Array, "V D"]]:
    """Launch: a differentiable loss of each token, and its gradients for dloss."""

    loss, pullback = jax.vjp(lambda x, w: token_losses(x, w, labels, bt, bv), x, w)
    return (loss, *pullback(dloss))


# ---- Given: inputs and helpers. ----


def linear_cross_entropy_backward_inputs(key, *, T, D, V, dtype):
    """Sure and unsure tokens, logits beyond 88; the last word is a label, some are ignored."""
    x_key, w_key, label_key, loss_key = jax.random.split(key, 4)
    sharpness = 2.0 ** (jnp.arange(T)[:, None] % 7)
    x = jax.random.normal(x_key, (T, D)) * sharpness * D**-0.5
    w = jax.random.normal(w_key, (V, D))
    labels = jax.random.randint(label_key, (1, T), 0, V)
    token = jnp.arange(T)
    labels = jnp.where(token % 5 == 1, V - 1 - token // 5 % 40, labels)
    labels = jnp.where(token % 9 == 4, IGNORE, labels)
    dloss = jax.random.uniform(loss_key, (1, T), minval=0.5, maxval=1.5) / T
    return x.astype(dtype), w.astype(dtype), labels, dloss


def dx_launch(x, w, labels, lse, dloss, *, bt, bv):
    """Launch dx_kernel: each block of tokens times all words, block by block."""
    T, D = x.shape
    V, _ = w.shape
    of_tokens = pl.BlockSpec((bt, D), lambda i, j: (i, 0))
    row = pl.BlockSpec((1, bt), lambda i, j: (0, i))
    return pl.pallas_call(
        functools.partial(dx_kernel, T=T, V=V),
        grid=(pl.cdiv(T, bt), pl.cdiv(V, bv)),
        in_specs=[of_tokens, pl.BlockSpec((bv, D), lambda i, j: (j, 0)), row, row, row],
        out_specs=of_tokens,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        scratch_shapes=[pltpu.VMEM((bt, D), jnp.float32)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "arbitrary"), vmem_limit_bytes=32 * 2**20
        ),
        name="dx",
    )(x, w, labels, lse, dloss)


def linear_cross_entropy_kernel(
    x_ref, w_ref, labels_ref, loss_ref, lse_ref, m_ref, l_ref, label_sum, *, V
):
    last_of_both = (((1,), (1,)), ((), ()))

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
            dimension_semantics=("parallel", "arbitrary"), vmem_limit_bytes=32 * 2**20
        ),
        name="linear_cross_entropy",
    )(x, w, labels)
    return loss, lse


def test_linear_cross_entropy_backward(hidden_case):
    hidden_case.grade(linear_cross_entropy_backward)
