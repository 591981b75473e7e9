"""Attend to pages of 8-bit keys and values, with a scale for each page and head.

Goal
    The cache of paged_attention_dma in 8 bits: k and v are int8 or float8_e4m3fn, and
    represent k[n, g] * scales[n, g, 0] and v[n, g] * scales[n, g, 1], for page n and head g.
    The loop of copies is given. Write the copy of a page's scales, and `attend`, using
    `product` and `softmax_step` below.

Concept
    Decoding is bound by the bytes of the cache, and 8-bit numbers halve those of bfloat16.
    One scale for the whole cache would be too coarse: a single large value would make all
    others small. A scale for each page and head is 0.02 % of the numbers' bytes (1.6 % as HBM
    pads it, from [8, 2] to [8, 128]), and a new page doesn't change the scales of others.

    Where is the scale applied? Within a page and a head it is one number, so it can be
    factored out of a product:

        q @ (k * scale).T     P * D multiplications of a head's keys
        (q @ k.T) * scale     R * P of its scores

        p @ (v * scale)       P * D
        (p @ v) * scale       R * D of its part of the result

    The second line of each pair is also more accurate. An 8-bit number is exact in bfloat16,
    but its product with a scale would be rounded before the matrix unit multiplies it. After
    the product, everything is float32.

    But a block has c pages, each with its own scale. So `attend` needs c products with the
    keys, and one softmax of all their scores; then c products with the values, each scaled
    before it is added.

    Scales are indexed by the page's place in the pool, not by its place in the sequence. For
    a page that doesn't exist, the slot's scales are those of an earlier block, or garbage
    that may be NaN, and 0 * NaN is NaN. softmax_step masks the scores of such a page, and its
    values are 0 already: `clear` has overwritten them past the length.

    16 sequences of up to 4096 keys in pages of 128, 8 heads, D = 128, in int8: 121 µs on a
    v5e. paged_attention_dma takes 1.5 µs for each MiB of bfloat16, so 161 µs for the same
    keys. Half the bytes don't halve the time: they keep HBM busy for only 57 % of the 121 µs.
    The vector units convert 8-bit numbers to bfloat16, and this is now the slowest part.

Shapes
    name            dtype[dims]             memory space    Ref's shape       block
    lengths_ref     int32[B]                SMEM            (B,)              whole
    table_ref       int32[B, T]             SMEM            (B, T)            whole
    q_ref, o_ref    q.dtype[B, G, R, D]     VMEM            (G, R, D)         (b, 0, 0, 0)
    k_hbm, v_hbm    8 bits[N, G, P, D]      HBM             (N, G, P, D)      whole
    scales_hbm      float32[N, G, 2]        HBM             (N, G, 2)         whole
    k_slots         8 bits[2, c, G, P, D]   VMEM scratch    (2, c, G, P, D)   -
    v_slots         8 bits[2, c, G, P, D]   VMEM scratch    (2, c, G, P, D)   -
    scales_slots    float32[2, c, G, 2]     VMEM scratch    (2, c, G, 2)      -
    m_ref, l_ref    float32[G, R, 1]        VMEM scratch    (G, R, 1)         -
    acc_ref         float32[G, R, D]        VMEM scratch    (G, R, D)         -
    sems            dma semaphore[3, 2]     SMEM scratch    (3, 2)            -

Try
    pytest -k quantised_kv          stuck?  kata hint quantised_kv

Needs     paged_attention_dma
Read on   KIVI: Quantization for KV Cache, https://arxiv.org/abs/2402.02750
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Float32, Int32, Shaped


def quantised_kv_spec(
    lengths: Int32[Array, "B"],
    table: Int32[Array, "B T"],
    q: Float[Array, "B G R D"],
    k: Shaped[Array, "N G P D"],
    v: Shaped[Array, "N G P D"],
    scales: Float32[Array, "N G 2"],
) -> Float[Array, "B G R D"]:
    """The required result, in plain jax.numpy."""
    (B, T), (_, G, P, D) = table.shape, k.shape
    k, v = (x.astype(scales.dtype) * scales[..., n, None, None] for n, x in enumerate((k, v)))
    k, v = (x[table].swapaxes(1, 2).reshape(B, G, T * P, D) for x in (k, v))
    there = jnp.arange(T * P) < lengths[:, None, None]
    s = jnp.einsum("bgrd,bgsd->bgrs", q, k) * D**-0.5
    p = jax.nn.softmax(s, axis=-1, where=there[:, None])
    p = jnp.where(lengths[:, None, None, None] > 0, p, 0)
    o = jnp.einsum("bgrs,bgsd->bgrd", p, jnp.where(there[..., None], v, 0))
    return o.astype(q.dtype)


def quantised_kv_kernel(
    lengths_ref,
    table_ref,
    q_ref,
    k_hbm,
    v_hbm,
    scales_hbm,
    o_ref,
    k_slots,
    v_slots,
    scales_slots,
    m_ref,
    l_ref,
    acc_ref,
    sems,
):
    b = pl.program_id(0)
    _, c, _, P, D = k_slots.shape
    length = lengths_ref[b]
    m_ref[...] = jnp.full_like(m_ref, -jnp.inf)
    l_ref[...] = jnp.zeros_like(l_ref)
    acc_ref[...] = jnp.zeros_like(acc_ref)

    def copies(i, n, slot):
        """The copies of page n of block i: k, v, and their scales, to their place in a slot."""
        page = table_ref[b, i * c + n]
        k = pltpu.make_async_copy(k_hbm.at[page], k_slots.at[slot, n], sems.at[0, slot])
        v = pltpu.make_async_copy(v_hbm.at[page], v_slots.at[slot, n], sems.at[1, slot])
        # BEGIN SOLUTION
        scales = pltpu.make_async_copy(
            scales_hbm.at[page], scales_slots.at[slot, n], sems.at[2, slot]
        )
        # END SOLUTION
        return k, v, scales

    pages = (length + P - 1) // P
    blocks = (pages + c - 1) // c

    def for_pages(i, do):
        for n in range(c):

            @pl.when(i * c + n < pages)
            def _(n=n):
                for copy in copies(i, n, i % 2):
                    do(copy)

    def clear(i):
        """Set the values of block i past the length to 0: they may be NaN."""
        v = v_slots[i % 2].astype(jnp.float32)
        row = jax.lax.broadcasted_iota(jnp.int32, v.shape, 2)
        row += P * jax.lax.broadcasted_iota(jnp.int32, v.shape, 0)
        v_slots[i % 2] = jnp.where(row < length - i * c * P, v, 0).astype(v_slots.dtype)

    def attend(i):
        """Process block i, which has arrived: c pages, some of which may not exist."""
        q, slot, left = q_ref[...], i % 2, length - i * c * P
        # BEGIN SOLUTION
        scales = [jnp.where(n * P < left, scales_slots[slot, n], 0)[:, None] for n in range(c)]
        s = [
            product("grd,gsd->grs", q, k_slots[slot, n]) * (scales[n][..., 0:1] * D**-0.5)
            for n in range(c)
        ]
        p, alpha = softmax_step(jnp.concatenate(s, axis=2), left, m_ref, l_ref)
        weights = [p[..., n * P : (n + 1) * P].astype(q.dtype) for n in range(c)]
        acc = alpha * acc_ref[...]
        for n in range(c):
            acc += product("grs,gsd->grd", weights[n], v_slots[slot, n]) * scales[n][..., 1:2]
        acc_ref[...] = acc
        # END SOLUTION

    for_pages(0, lambda copy: copy.start())

    @pl.loop(0, blocks)
    def _(i):
        for_pages(i + 1, lambda copy: copy.start())
        for_pages(i, lambda copy: copy.wait())
        pl.when(length < (i + 1) * c * P)(lambda: clear(i))
        attend(i)

    total = l_ref[...]
    o_ref[...] = (acc_ref[...] / jnp.where(total == 0, 1, total)).astype(o_ref.dtype)


def quantised_kv(
    lengths: Int32[Array, "B"],
    table: Int32[Array, "B T"],
    q: Float[Array, "B G R D"],
    k: Shaped[Array, "N G P D"],
    v: Shaped[Array, "N G P D"],
    scales: Float32[Array, "N G 2"],
    *,
    c: int = 4,
) -> Float[Array, "B G R D"]:
    """Launch: one step for each sequence; the pools stay in HBM, with two slots of c pages each."""
    (B, G, R, D), P = q.shape, k.shape[2]
    q_spec = pl.BlockSpec((None, G, R, D), lambda b, lengths, table: (b, 0, 0, 0))
    hbm = pl.BlockSpec(memory_space=pltpu.HBM)
    return pl.pallas_call(
        quantised_kv_kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(B,),
            in_specs=[q_spec, hbm, hbm, hbm],
            out_specs=q_spec,
            scratch_shapes=[
                pltpu.VMEM((2, c, G, P, D), k.dtype),
                pltpu.VMEM((2, c, G, P, D), v.dtype),
                pltpu.VMEM((2, c, G, 2), jnp.float32),
                pltpu.VMEM((G, R, 1), jnp.float32),
                pltpu.VMEM((G, R, 1), jnp.float32),
                pltpu.VMEM((G, R, D), jnp.float32),
                pltpu.SemaphoreType.DMA((3, 2)),
            ],
        ),
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("arbitrary",)),
        name="quantised_kv",
    )(lengths, table, q, k, v, scales)


# ---- Given: inputs and helpers. ----


def product(equation, x, y):
    """An einsum of x and y in float32. The 8-bit numbers of y are exact in x's dtype."""
    return jnp.einsum(equation, x, y.astype(x.dtype), preferred_element_type=jnp.float32)


def softmax_step(s, left, m_ref, l_ref):
    """A block's weights p, 0 past the first `left`, and alpha, which rescales earlier sums."""
    here = jax.lax.broadcasted_iota(jnp.int32, s.shape, 2) < left
    s = jnp.where(here, s, -jnp.inf)
    m_prev = m_ref[...]
    m_next = jnp.maximum(m_prev, jnp.max(s, axis=2, keepdims=True))
    alpha, p = jnp.exp(m_prev - m_next), jnp.exp(s - m_next)
    m_ref[...] = m_next
    l_ref[...] = alpha * l_ref[...] + jnp.sum(p, axis=2, keepdims=True)
    return p, alpha


def quantised_kv_inputs(key, *, B, T, G, R, P, D, N, c, bits, dtype):
    """Lengths: 0, 1, P, P + 1, c * P, all; scrambled pages; garbage in unused slots.

    All sequences with a full first page share it. `bits` is 0 for int8, 1 for float8_e4m3fn.
    """
    stored, garbage = ((jnp.int8, 127), (jnp.float8_e4m3fn, jnp.nan))[bits]
    q_key, size_key, key = jax.random.split(key, 3)
    k_key, v_key, scale_key, length_key, order_key, page_key = jax.random.split(key, 6)
    size = jnp.exp(jax.random.uniform(size_key, (B, G, R, 1), maxval=3.5))
    # In quarters, so that every product and every sum of 8-bit keys is exact in float32.
    q = jnp.round(jax.random.normal(q_key, (B, G, R, D)) * size * 4) / 4
    # All scores of the first query of a head are below -100.
    q = q.at[..., -1].set(0).at[:, :, 0].set(jnp.where(jnp.arange(D) == D - 1, -1024, 0))
    # At most 47 pages are drawn; a large pool repeats them.
    few = (jnp.round(jax.random.normal(one, (47, G, P, D)) * 5) for one in (k_key, v_key))
    k, v = (x.astype(stored)[jnp.arange(N) % 47] for x in few)
    k = k.at[..., -1].set(120)
    scales = jnp.exp2(jax.random.uniform(scale_key, (N, G, 2), minval=-6.0, maxval=-2.0))
    lengths = jax.random.randint(length_key, (B,), 1, T * P + 1)
    lengths = jnp.concatenate([jnp.array([P + 1, 0, c * P, T * P, 1, P]), lengths])[:B]
    lengths = jax.random.permutation(order_key, lengths).astype(jnp.int32)
    pages = jax.random.permutation(page_key, N)[: B * T + 1].astype(jnp.int32)
    table = pages[1:].reshape(B, T)
    table = table.at[:, 0].set(jnp.where(lengths < P, table[:, 0], pages[0]))
    there = jnp.arange(P) < lengths[:, None, None] - P * jnp.arange(T)[:, None]
    used = jnp.zeros((N, P), bool).at[table].max(there)[:, None, :, None]
    free = ~used.any(2)[..., 0]
    scales = jnp.where(free[..., None], jnp.nan, scales)
    k, v = (jnp.where(used, x, jnp.asarray(garbage, stored)) for x in (k, v))
    return lengths, table, q.astype(dtype), k, v, scales


def test_quantised_kv(hidden_case):
    hidden_case.grade(quantised_kv)
