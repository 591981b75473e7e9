"""Divide the keys of a sequence among several cores, and merge their results.

Goal
    The same attention as in decode_attention, but the blocks of a sequence's keys are
    distributed over P independent splits. Write the outputs of a split, the kernel that
    merges the splits of a sequence, and the index map of the keys. The softmax steps and the
    order of the grid are given.

Concept
    One sequence of 98,305 tokens, 8 heads of keys: a v5p reads them in 234 µs. It has two
    cores, but one of them is idle: the result of a sequence is one sum, computed by one core.
    Two splits take 154 µs, because their grid dimension is "parallel". If it were
    "arbitrary", one core would do both, in 237 µs. (A v5e has one core and takes 509 µs
    either way. `kata cost split_k_decode splits=1 --chip v5p` prints the 234 µs.) Blocks go
    to the splits round-robin, so that splits are balanced at any length:

        block      0   1   2   3   4   5   6   7
        split 0    x       x       x       x
        split 1        x       x       x       x

    A split runs its own online softmax over its own keys, and produces

        part = sum of exp(s - m) * v / l           the result, if these were all keys
        lse  = log(sum of exp(s)) = m + log(l)     how much they weigh, as a logarithm

    These two numbers suffice to merge the parts: exp(lse) is the part's share of the
    denominator. So the merged result is the mean of the parts, weighted by exp(lse). This is
    another softmax, over splits instead of keys, and needs the same care: exp(100) overflows
    float32, so subtract the largest lse first.

    In a short sequence, some splits have no keys. An unused batch entry has length zero: none
    of its splits has keys. Then m is -inf and l is 0, and NaN can arise in three ways: 0 / 0,
    -inf - -inf, and 0 * NaN. The weight of an empty split must be 0, and so must the result
    of a sequence without keys.

Shapes
    name                dtype[dims]             memory space   Ref's shape    block
    lengths_ref         int32[B]                SMEM           (B,)           whole
    q_ref               q.dtype[B, G, R, D]     VMEM           (G, R, D)      (b, 0, 0, 0)
    k_ref, v_ref        q.dtype[B, G, S, D]     VMEM           (G, bs, D)     yours
    part_ref            float32[B, P, G, R, D]  VMEM           (G, R, D)      (b, p, 0, 0, 0)
    lse_ref             float32[B, P, G, R, 1]  VMEM           (G, R, 1)      (b, p, 0, 0, 0)
    m_ref, l_ref        float32[G, R, 1]        VMEM scratch   (G, R, 1)      -
    acc_ref             float32[G, R, D]        VMEM scratch   (G, R, D)      -
    parts_ref           float32[B, P, G, R, D]  VMEM           (P, G, R, D)   (b, 0, 0, 0, 0)
    lses_ref            float32[B, P, G, R, 1]  VMEM           (P, G, R, 1)   (b, 0, 0, 0, 0)
    o_ref               q.dtype[B, G, R, D]     VMEM           (G, R, D)      (b, 0, 0, 0)

    P is `splits`. P * bs divides S.

Try
    pytest -k split_k_decode          stuck?  kata hint split_k_decode

Needs     decode_attention
Read on   Flash-Decoding, https://crfm.stanford.edu/2023/10/12/flashdecoding.html
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Int32


def split_k_decode_spec(
    lengths: Int32[Array, "B"],
    q: Float[Array, "B G R D"],
    k: Float[Array, "B G S D"],
    v: Float[Array, "B G S D"],
) -> Float[Array, "B G R D"]:
    """The required result, in plain jax.numpy. Without keys, the result is 0."""
    there = jnp.arange(k.shape[2]) < lengths[:, None, None]
    s = jnp.einsum("bgrd,bgsd->bgrs", q, k) * q.shape[3] ** -0.5
    p = jax.nn.softmax(s, axis=-1, where=there[:, None])
    return jnp.einsum("bgrs,bgsd->bgrd", p, jnp.where(there[..., None], v, 0))


def end_of_split(part_ref, lse_ref, m_ref, l_ref, acc_ref):
    """Write one part: the result for its own keys, and the log of their sum of exponentials."""
    # BEGIN SOLUTION
    summed = l_ref[...]
    part_ref[...] = acc_ref[...] / jnp.where(summed > 0, summed, 1)
    lse_ref[...] = m_ref[...] + jnp.log(summed)
    # END SOLUTION


def merge_kernel(parts_ref, lses_ref, o_ref):
    # BEGIN SOLUTION
    lse = lses_ref[...]
    largest = jnp.max(lse, axis=0)
    weight = jnp.exp(lse - jnp.where(largest > -jnp.inf, largest, 0))
    total = jnp.sum(weight, axis=0)
    o = jnp.sum(weight * parts_ref[...], axis=0) / jnp.where(total > 0, total, 1)
    o_ref[...] = o.astype(o_ref.dtype)
    # END SOLUTION


def split_k_decode(
    lengths: Int32[Array, "B"],
    q: Float[Array, "B G R D"],
    k: Float[Array, "B G S D"],
    v: Float[Array, "B G S D"],
    *,
    bs: int = 512,
    splits: int = 2,
) -> Float[Array, "B G R D"]:
    """Launch a kernel whose splits take blocks of keys round-robin, and one that merges parts."""
    B, G, R, D = q.shape
    steps = k.shape[2] // (splits * bs)

    # BEGIN SOLUTION
    def kv_block(b, p, j, lengths):
        last = jnp.maximum((lengths[b] - 1) // bs, 0)
        return b, 0, jnp.minimum(j * splits + p, last), 0

    # END SOLUTION

    kv_spec = pl.BlockSpec((None, G, bs, D), kv_block)
    parts, lses = pl.pallas_call(
        split_k_decode_kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(B, splits, steps),
            in_specs=[
                pl.BlockSpec((None, G, R, D), lambda b, p, j, lengths: (b, 0, 0, 0)),
                kv_spec,
                kv_spec,
            ],
            out_specs=[
                pl.BlockSpec((None, None, G, R, width), lambda b, p, j, lengths: (b, p, 0, 0, 0))
                for width in (D, 1)
            ],
            scratch_shapes=[pltpu.VMEM((G, R, width), jnp.float32) for width in (1, 1, D)],
        ),
        out_shape=[jax.ShapeDtypeStruct((B, splits, G, R, n), jnp.float32) for n in (D, 1)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary")
        ),
        name="split_k_decode",
    )(lengths, q, k, v)
    return pl.pallas_call(
        merge_kernel,
        grid=(B,),
        in_specs=[
            pl.BlockSpec((None, splits, G, R, width), lambda b: (b, 0, 0, 0, 0)) for width in (D, 1)
        ],
        out_specs=pl.BlockSpec((None, G, R, D), lambda b: (b, 0, 0, 0)),
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
        name="merge",
    )(parts, lses)


# ---- Given: inputs and helpers. ----


def split_k_decode_inputs(key, *, B, G, R, S, D, bs, dtype):
    """Lengths: nearly all keys, none, a block, all, and one; garbage past them.

    Queries are short and long: scores range from small to far beyond exp's range.
    """
    q_key, k_key, v_key, size_key, order_key = jax.random.split(key, 5)
    size = jnp.exp(jax.random.uniform(size_key, (B, G, R, 1), maxval=4.0)).at[:, :, 0].set(55.0)
    # In sixteenths, so that every product and every sum is exact in float32.
    q = jnp.round(jax.random.normal(q_key, (B, G, R, D)) * size * 16) / 16
    k = jnp.round(jax.random.normal(k_key, (B, G, S, D)) * 16) / 16
    # All scores of the second query of a head are below -100.
    low = jnp.where(jnp.arange(D) == D - 1, -192, 0)
    k, q = k.at[..., -1].set(16), q.at[..., -1].set(0).at[:, :, 1].set(low)
    v = jax.random.normal(v_key, (B, G, S, D))
    lengths = jnp.array([S - bs - 100, 0, bs, S, 1] if B > 1 else [S - S // 4 + 1], jnp.int32)[:B]
    lengths = jax.random.permutation(order_key, lengths)
    row, end = jnp.arange(S)[:, None], lengths[:, None, None, None]
    k = jnp.where(row > end, jnp.nan, k)  # the first key past the end is an earlier sequence's
    v = jnp.where(row >= end, jnp.nan, v)
    return lengths, q.astype(dtype), k.astype(dtype), v.astype(dtype)


def split_k_decode_kernel(
    lengths_ref, q_ref, k_ref, v_ref, part_ref, lse_ref, m_ref, l_ref, acc_ref
):
    b, p, j = (pl.program_id(axis) for axis in range(3))
    splits, steps = pl.num_programs(1), pl.num_programs(2)
    _, bs, D = k_ref.shape
    left = lengths_ref[b] - (j * splits + p) * bs

    @pl.when(j == 0)
    def _():
        m_ref[...] = jnp.full_like(m_ref, -jnp.inf)
        l_ref[...] = jnp.zeros_like(l_ref)
        acc_ref[...] = jnp.zeros_like(acc_ref)

    @pl.when(left > 0)
    def _():
        s = jnp.einsum("grd,gsd->grs", q_ref[...], k_ref[...], preferred_element_type=jnp.float32)
        here = jax.lax.broadcasted_iota(jnp.int32, s.shape, 2) < left
        s = jnp.where(here, s * D**-0.5, -jnp.inf)
        row = jax.lax.broadcasted_iota(jnp.int32, v_ref.shape, 1)
        v = jnp.where(row < left, v_ref[...], 0)
        m_prev = m_ref[...]
        m_next = jnp.maximum(m_prev, jnp.max(s, axis=2, keepdims=True))
        alpha, weight = jnp.exp(m_prev - m_next), jnp.exp(s - m_next)
        m_ref[...] = m_next
        l_ref[...] = alpha * l_ref[...] + jnp.sum(weight, axis=2, keepdims=True)
        weight = weight.astype(v.dtype)
        pv = jnp.einsum("grs,gsd->grd", weight, v, preferred_element_type=jnp.float32)
        acc_ref[...] = alpha * acc_ref[...] + pv

    @pl.when(j == steps - 1)
    def _():
        end_of_split(part_ref, lse_ref, m_ref, l_ref, acc_ref)


def test_split_k_decode(hidden_case):
    hidden_case.grade(split_k_decode)
