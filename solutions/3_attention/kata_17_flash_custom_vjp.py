"""Teach JAX the gradient of flash attention.

Goal
    Four kernels are given, all causal: a forward kernel, which returns both o
    and lse, and the kernels for delta, for dq, and for dk and dv. Make a function
    from them that `jax.grad` can differentiate. Write its forward rule, its
    backward rule, and the call that registers them. The grader checks the results of
    `jax.vjp` for do, the *cotangent* of o: the gradient of the loss with respect
    to o.

Concept
    JAX differentiates a program with a rule for each operation in it. It has no
    gradient rule for `pallas_call`, not even if the body is one line without scratch:
    "Linearization failed". Operations on a kernel's Refs can't be run backward, so
    somebody has to write the backward kernels. You did, in three katas, and
    `jax.custom_vjp` is how you give them to JAX:

        f = jax.custom_vjp(fun, nondiff_argnums=...)
        f.defvjp(fwd, bwd)

        fun(*args)                           what f(*args) is without a gradient
        fwd(*args) -> result, residuals      the same, and what bwd will need
        bwd(residuals, d_result) -> grads    one for each argument, in order

    Residuals can be any tuple of arrays. They stay in HBM until the backward
    pass, which in training comes after all later layers. So choose them well:

                          fwd                            bwd
        q, k, v ---> flash_forward ---> o, lse ------> flash_delta
                                                       flash_dq     ---> dq
            residuals: 4 x [T, H], one [1, T]          flash_dkv    ---> dk, dv

    For 8 heads of 4096 x 128 in bfloat16, these residuals take 32.1 MiB; p would
    take 256 MiB. q, k and v alone, 24 MiB, would be enough if bwd ran the forward
    kernel again. Leave that trade-off to `jax.checkpoint`, which makes it for whole
    layers.

    Arguments that aren't arrays, here the block sizes, have no gradient. List
    their positions in nondiff_argnums, and f passes them on as they are. fwd gets
    all arguments in the order of fun. bwd gets *these first*, then the residuals
    and the cotangent, and returns gradients only for the other arguments.

    XLA compiles any other operation in the rules, with its own traffic to HBM.

    You know these kernels. Here they have a causal mask, as in causal_flash: blocks
    above the diagonal are neither computed nor fetched. Note which steps
    flash_dkv skips: only *later* queries see a block of keys, so its first steps
    do nothing.

Shapes
    name           dtype[dims]           memory space   Ref's shape   block
    q, do, o, dq   q.dtype[B, N, T, H]   VMEM           (bq, H)       (b, n, i, 0)
    k, v, dk, dv   q.dtype[B, N, T, H]   VMEM           (bkv, H)      (b, n, j, 0)
    lse, delta     float32[B, N, 1, T]   VMEM           (1, bq)       (b, n, 0, i)

Try
    pytest -k flash_custom_vjp              stuck?  kata hint flash_custom_vjp

Needs     flash_backward_dkv, causal_flash
Read on   Training Deep Nets with Sublinear Memory Cost, https://arxiv.org/abs/1604.06174
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float

LANES = 128
MASK_VALUE = -0.7 * float(jnp.finfo(jnp.float32).max)
LAST_OF_BOTH = (((1,), (1,)), ((), ()))


def flash_custom_vjp_spec(
    q: Float[Array, "B N T H"],
    k: Float[Array, "B N T H"],
    v: Float[Array, "B N T H"],
    do: Float[Array, "B N T H"],
) -> tuple[
    Float[Array, "B N T H"],
    Float[Array, "B N T H"],
    Float[Array, "B N T H"],
    Float[Array, "B N T H"],
]:
    """The required results, in plain jax.numpy: o, dq, dk and dv."""

    def attention(q, k, v):
        T, H = q.shape[2:]
        s = jnp.einsum("bnth,bnsh->bnts", q, k) * H**-0.5
        s = jnp.where(jnp.tri(T, dtype=bool), s, -jnp.inf)
        return jnp.einsum("bnts,bnsh->bnth", jax.nn.softmax(s, axis=-1), v)

    o, backward = jax.vjp(attention, q, k, v)
    return o, *backward(do)


# ---- The function, its rules, and the code that ties them together. ----


def attention(q, k, v, bq, bkv):
    """Causal attention; o has q's shape. JAX can run it, but has no gradient for it."""
    o, _ = flash_forward(q, k, v, bq, bkv)
    return o


def attention_fwd(q, k, v, bq, bkv):
    """The forward rule: the result of `attention`, and the residuals."""
    # BEGIN SOLUTION
    o, lse = flash_forward(q, k, v, bq, bkv)
    return o, (q, k, v, o, lse)
    # END SOLUTION


def attention_bwd(bq, bkv, residuals, do):
    """The backward rule: the gradients for the array arguments of `attention`."""
    # BEGIN SOLUTION
    q, k, v, o, lse = residuals
    delta = flash_delta(o, do, bq)
    dq = flash_dq(q, k, v, do, lse, delta, bq, bkv)
    dk, dv = flash_dkv(q, k, v, do, lse, delta, bq, bkv)
    return dq, dk, dv
    # END SOLUTION


def flash_custom_vjp(
    q: Float[Array, "B N T H"],
    k: Float[Array, "B N T H"],
    v: Float[Array, "B N T H"],
    do: Float[Array, "B N T H"],
    *,
    bq: int = 512,
    bkv: int = 512,
) -> tuple[
    Float[Array, "B N T H"],
    Float[Array, "B N T H"],
    Float[Array, "B N T H"],
    Float[Array, "B N T H"],
]:
    """Return o, and the gradients of jax.vjp for the cotangent do: dq, dk and dv."""
    # BEGIN SOLUTION
    differentiable = jax.custom_vjp(attention, nondiff_argnums=(3, 4))
    differentiable.defvjp(attention_fwd, attention_bwd)
    # END SOLUTION
    o, backward = jax.vjp(lambda q, k, v: differentiable(q, k, v, bq, bkv), q, k, v)
    return o, *backward(do)


# ---- Given: inputs and helpers. ----


def flash_custom_vjp_inputs(key, *, B, N, T, H, dtype):
    """Some queries attend to many keys, some to few with scores above 100."""
    q, k, v, do = jax.random.normal(key, (4, B, N, T, H))
    sharpness = 1.0 + jnp.arange(T)[:, None] * 7 % 40
    # In sixteenths, so that every product and every sum is exact in float32.
    q, k = jnp.round(16 * q * sharpness) / 16, jnp.round(16 * k) / 16
    return tuple(x.astype(dtype) for x in (q, k, v, do / sharpness**2))


# ---- Shared by the kernels. i is a block of queries, j is a block of keys. ----


def widened(x, width):
    """Repeat a statistic of 128 equal lanes until it is `width` lanes wide."""
    return jnp.tile(x, (1, width // LANES))


def is_empty(i, j, bq, bkv):
    """Whether block (i, j) lies above the diagonal: its first key comes after its last query."""
    return j * bkv > i * bq + bq - 1


def unless_empty(step, i, j, bq, bkv):
    """Run step(masked) if block (i, j) isn't empty; masked is True if the diagonal crosses it."""
    full = j * bkv + bkv - 1 <= i * bq
    pl.when(full)(lambda: step(masked=False))
    pl.when(jnp.logical_not(full | is_empty(i, j, bq, bkv)))(lambda: step(masked=True))


def causal(s, first_query, first_key, query_axis):
    """Mask the scores s where the key comes after the query."""
    query = first_query + jax.lax.broadcasted_iota(jnp.int32, s.shape, query_axis)
    key = first_key + jax.lax.broadcasted_iota(jnp.int32, s.shape, 1 - query_axis)
    return jnp.where(key <= query, s, MASK_VALUE)


def dot(a, b, dims=(((1,), (0,)), ((), ()))):
    return jax.lax.dot_general(a, b, dims, preferred_element_type=jnp.float32)


def parallel_but_last(axes):
    semantics = ("parallel",) * (axes - 1) + ("arbitrary",)
    return pltpu.CompilerParams(dimension_semantics=semantics)


# ---- Forward: o and lse. Grid (B, N, i, j). ----


def forward_kernel(q_ref, k_ref, v_ref, o_ref, lse_ref, m_ref, l_ref, acc_ref):
    i, j = pl.program_id(2), pl.program_id(3)
    (bq, H), bkv = q_ref.shape, k_ref.shape[0]

    @pl.when(j == 0)
    def _():
        m_ref[...] = jnp.full_like(m_ref, MASK_VALUE)
        l_ref[...] = jnp.zeros_like(l_ref)
        acc_ref[...] = jnp.zeros_like(acc_ref)

    def step(masked):
        s = dot(q_ref[...], k_ref[...], LAST_OF_BOTH) * H**-0.5
        if masked:
            s = causal(s, i * bq, j * bkv, query_axis=0)
        m_prev = m_ref[...]
        m_next = jnp.maximum(m_prev, jnp.max(s, axis=1, keepdims=True))
        alpha = jnp.exp(m_prev - m_next)
        p = jnp.exp(s - widened(m_next, bkv))
        m_ref[...] = m_next
        l_ref[...] = alpha * l_ref[...] + jnp.sum(p, axis=1, keepdims=True)
        acc_ref[...] = widened(alpha, H) * acc_ref[...] + dot(p.astype(v_ref.dtype), v_ref[...])

    unless_empty(step, i, j, bq, bkv)

    @pl.when(j == pl.num_programs(3) - 1)
    def _():
        o_ref[...] = (acc_ref[...] / widened(l_ref[...], H)).astype(o_ref.dtype)
        lse_ref[...] = (m_ref[...] + jnp.log(l_ref[...])).T[:1]


def key_specs(bq, bkv, H):
    """BlockSpecs for queries, for keys and for rows, in the grids that have j innermost."""

    def of_keys(b, n, i, j):
        return b, n, jnp.where(is_empty(i, j, bq, bkv), 0, j), 0

    return (
        pl.BlockSpec((None, None, bq, H), lambda b, n, i, j: (b, n, i, 0)),
        pl.BlockSpec((None, None, bkv, H), of_keys),
        pl.BlockSpec((None, None, 1, bq), lambda b, n, i, j: (b, n, 0, i)),
    )


def flash_forward(q, k, v, bq, bkv):
    """Return o, of q's shape, and lse, float32[B, N, 1, T]."""
    B, N, T, H = q.shape
    q_spec, kv_spec, row_spec = key_specs(bq, bkv, H)
    return pl.pallas_call(
        forward_kernel,
        grid=(B, N, T // bq, T // bkv),
        in_specs=[q_spec, kv_spec, kv_spec],
        out_specs=[q_spec, row_spec],
        out_shape=[
            jax.ShapeDtypeStruct(q.shape, q.dtype),
            jax.ShapeDtypeStruct((B, N, 1, T), jnp.float32),
        ],
        scratch_shapes=[
            pltpu.VMEM((bq, LANES), jnp.float32),
            pltpu.VMEM((bq, LANES), jnp.float32),
            pltpu.VMEM((bq, H), jnp.float32),
        ],
        compiler_params=parallel_but_last(4),
        name="flash_forward",
    )(q, k, v)


# ---- Backward: flash_backward_delta. Grid (B, N, i). ----


def delta_kernel(o_ref, do_ref, delta_ref):
    product = o_ref[...].astype(jnp.float32) * do_ref[...].astype(jnp.float32)
    delta_ref[...] = jnp.sum(product.T, axis=0, keepdims=True)


def flash_delta(o, do, bq):
    """Return the sums of o * do over the head dim, float32[B, N, 1, T]."""
    B, N, T, H = o.shape
    q_spec = pl.BlockSpec((None, None, bq, H), lambda b, n, i: (b, n, i, 0))
    return pl.pallas_call(
        delta_kernel,
        grid=(B, N, T // bq),
        in_specs=[q_spec, q_spec],
        out_specs=pl.BlockSpec((None, None, 1, bq), lambda b, n, i: (b, n, 0, i)),
        out_shape=jax.ShapeDtypeStruct((B, N, 1, T), jnp.float32),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",) * 3),
        name="flash_delta",
    )(o, do)


# ---- Backward: flash_backward_dq. Grid (B, N, i, j). ----


def dq_kernel(q_ref, k_ref, v_ref, do_ref, lse_ref, delta_ref, dq_ref, acc_ref):
    i, j = pl.program_id(2), pl.program_id(3)
    (bq, H), bkv = q_ref.shape, k_ref.shape[0]

    @pl.when(j == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    def step(masked):
        s = dot(q_ref[...], k_ref[...], LAST_OF_BOTH) * H**-0.5
        if masked:
            s = causal(s, i * bq, j * bkv, query_axis=0)
        p = jnp.exp(s - lse_ref[0, :][:, None])
        dp = dot(do_ref[...], v_ref[...], LAST_OF_BOTH)
        ds = p * (dp - delta_ref[0, :][:, None])
        acc_ref[...] += dot(ds.astype(k_ref.dtype), k_ref[...])

    unless_empty(step, i, j, bq, bkv)

    @pl.when(j == pl.num_programs(3) - 1)
    def _():
        dq_ref[...] = (acc_ref[...] * H**-0.5).astype(dq_ref.dtype)


def flash_dq(q, k, v, do, lse, delta, bq, bkv):
    """Return the gradient for q, of q's shape."""
    B, N, T, H = q.shape
    q_spec, kv_spec, row_spec = key_specs(bq, bkv, H)
    return pl.pallas_call(
        dq_kernel,
        grid=(B, N, T // bq, T // bkv),
        in_specs=[q_spec, kv_spec, kv_spec, q_spec, row_spec, row_spec],
        out_specs=q_spec,
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        scratch_shapes=[pltpu.VMEM((bq, H), jnp.float32)],
        compiler_params=parallel_but_last(4),
        name="flash_dq",
    )(q, k, v, do, lse, delta)


# ---- Backward: flash_backward_dkv. Grid (B, N, j, i). ----


def dkv_kernel(q_ref, k_ref, v_ref, do_ref, lse_ref, delta_ref, dk_ref, dv_ref, dk_acc, dv_acc):
    j, i = pl.program_id(2), pl.program_id(3)
    (bq, H), bkv = q_ref.shape, k_ref.shape[0]

    @pl.when(i == 0)
    def _():
        dk_acc[...] = jnp.zeros_like(dk_acc)
        dv_acc[...] = jnp.zeros_like(dv_acc)

    def step(masked):
        s_t = dot(k_ref[...], q_ref[...], LAST_OF_BOTH) * H**-0.5
        if masked:
            s_t = causal(s_t, i * bq, j * bkv, query_axis=1)
        p_t = jnp.exp(s_t - lse_ref[...])
        dv_acc[...] += dot(p_t.astype(do_ref.dtype), do_ref[...])
        dp_t = dot(v_ref[...], do_ref[...], LAST_OF_BOTH)
        ds_t = p_t * (dp_t - delta_ref[...])
        dk_acc[...] += dot(ds_t.astype(q_ref.dtype), q_ref[...])

    unless_empty(step, i, j, bq, bkv)

    @pl.when(i == pl.num_programs(3) - 1)
    def _():
        dk_ref[...] = (dk_acc[...] * H**-0.5).astype(dk_ref.dtype)
        dv_ref[...] = dv_acc[...].astype(dv_ref.dtype)


def flash_dkv(q, k, v, do, lse, delta, bq, bkv):
    """Return the gradients for k and v, of their shapes."""
    B, N, T, H = q.shape

    def later(i, j):
        """Block i of queries, or the first block that sees keys of block j if that comes later."""
        return jnp.maximum(i, jax.lax.div(j * bkv, bq))

    q_spec = pl.BlockSpec((None, None, bq, H), lambda b, n, j, i: (b, n, later(i, j), 0))
    kv_spec = pl.BlockSpec((None, None, bkv, H), lambda b, n, j, i: (b, n, j, 0))
    row_spec = pl.BlockSpec((None, None, 1, bq), lambda b, n, j, i: (b, n, 0, later(i, j)))
    return pl.pallas_call(
        dkv_kernel,
        grid=(B, N, T // bkv, T // bq),
        in_specs=[q_spec, kv_spec, kv_spec, q_spec, row_spec, row_spec],
        out_specs=[kv_spec, kv_spec],
        out_shape=[
            jax.ShapeDtypeStruct(k.shape, k.dtype),
            jax.ShapeDtypeStruct(v.shape, v.dtype),
        ],
        scratch_shapes=[pltpu.VMEM((bkv, H), jnp.float32)] * 2,
        compiler_params=parallel_but_last(4),
        name="flash_dkv",
    )(q, k, v, do, lse, delta)


def test_flash_custom_vjp(hidden_case):
    hidden_case.grade(flash_custom_vjp)
