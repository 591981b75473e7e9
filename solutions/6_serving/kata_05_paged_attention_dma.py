"""Attend to pages that the kernel copies itself, several in a step.

Goal
    The task is that of paged_attention_index_map, with small pages: sequence b has lengths[b]
    keys, possibly none, and table[b] names its pages. k and v are in HBM. For one sequence,
    write the loop that copies its pages, c at a time, to two slots, and attends to them.
    `attend_up_to`, which processes c * P keys, is given.

Concept
    A page of 16 keys is 32 KiB. As a block, each page would need its own grid step, and kata
    04's launch would take 6.46 ms. A step of 512 keys needs 32 pages, from 32 places. A
    BlockSpec can't express that, but copies can: copy each page to its place in a slot, and
    the slot is a contiguous block of keys.

        table[b]     [ 9, 2, 6, 0, 4, ? ]         c = 4, five pages hold keys

        HBM            9    2    6    0             4
                       |    |    |    |             |
                       v    v    v    v             v
        slot 0      [  P  | P  | P  | P  ]
        slot 1                                   [  P  | .. | .. | .. ]

    All copies into one slot share a semaphore for k, and another for v. A semaphore counts
    bytes, so the slot is complete once you have waited for as many copies as you started.
    While the kernel attends to one block, the next one is copied, as in `double_buffer`, but
    with many copies per block.

    The number of copies depends on the length, which is in SMEM. A sequence has
    ceil(length / P) pages, and its last block may hold fewer than c. Don't wait for a page
    whose copies you haven't started: that wait would never end. The rest of the slot holds an
    earlier block. `attend_up_to` masks it, given the number of keys that are left.

    64 sequences of up to 4096 keys in pages of 16, about half of them filled, 8 heads, D =
    128: 651 µs on a v5e, at 85 % of HBM's bandwidth. The scalar core spends 60 % of that time
    starting about 14,000 copies and waiting for them. Pages of 128 keys need an eighth of the
    copies. More time is lost because the first block of a sequence isn't prefetched while the
    previous sequence is processed.

Shapes
    name            dtype[dims]           memory space    Ref's shape      block
    lengths_ref     int32[B]              SMEM            (B,)             whole
    table_ref       int32[B, T]           SMEM            (B, T)           whole
    q_ref, o_ref    q.dtype[B, G, R, D]   VMEM            (G, R, D)        (b, 0, 0, 0)
    k_hbm, v_hbm    q.dtype[N, G, P, D]   HBM             (N, G, P, D)     whole
    k_slots         q.dtype[2, G, cP, D]  VMEM scratch    (2, G, cP, D)    -
    v_slots         q.dtype[2, G, cP, D]  VMEM scratch    (2, G, cP, D)    -
    m_ref, l_ref    float32[G, R, 1]      VMEM scratch    (G, R, 1)        -
    acc_ref         float32[G, R, D]      VMEM scratch    (G, R, D)        -
    sems            dma semaphore[2, 2]   SMEM scratch    (2, 2)           -

Try
    pytest -k paged_attention_dma          stuck?  kata hint paged_attention_dma

Needs     paged_attention_index_map, double_buffer
Read on   Ragged Paged Attention, https://arxiv.org/abs/2604.15464
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Int32


def paged_attention_dma_spec(
    lengths: Int32[Array, "B"],
    table: Int32[Array, "B T"],
    q: Float[Array, "B G R D"],
    k: Float[Array, "N G P D"],
    v: Float[Array, "N G P D"],
) -> Float[Array, "B G R D"]:
    """The required result, in plain jax.numpy."""
    (B, T), (_, G, P, D) = table.shape, k.shape
    k, v = (x[table].swapaxes(1, 2).reshape(B, G, T * P, D) for x in (k, v))
    there = jnp.arange(T * P) < lengths[:, None, None]
    s = jnp.einsum("bgrd,bgsd->bgrs", q, k) * D**-0.5
    p = jax.nn.softmax(s, axis=-1, where=there[:, None])
    p = jnp.where(lengths[:, None, None, None] > 0, p, 0)
    return jnp.einsum("bgrs,bgsd->bgrd", p, jnp.where(there[..., None], v, 0))


def paged_attention_dma_kernel(
    lengths_ref,
    table_ref,
    q_ref,
    k_hbm,
    v_hbm,
    o_ref,
    k_slots,
    v_slots,
    m_ref,
    l_ref,
    acc_ref,
    sems,
):
    b = pl.program_id(0)
    P, cP = k_hbm.shape[2], k_slots.shape[2]
    c = cP // P
    length = lengths_ref[b]
    m_ref[...] = jnp.full_like(m_ref, -jnp.inf)
    l_ref[...] = jnp.zeros_like(l_ref)
    acc_ref[...] = jnp.zeros_like(acc_ref)

    def copies(i, n, slot):
        """The copies of page n of block i, of k and of v, to its place in a slot."""
        page, rows = table_ref[b, i * c + n], pl.ds(n * P, P)
        return (
            pltpu.make_async_copy(k_hbm.at[page], k_slots.at[slot, :, rows], sems.at[0, slot]),
            pltpu.make_async_copy(v_hbm.at[page], v_slots.at[slot, :, rows], sems.at[1, slot]),
        )

    # BEGIN SOLUTION
    pages = (length + P - 1) // P
    blocks = (pages + c - 1) // c

    def for_pages(i, do):
        slot = i % 2

        @pl.loop(0, jnp.minimum(pages - i * c, c))
        def _(n):
            for copy in copies(i, n, slot):
                do(copy)

    for_pages(0, lambda copy: copy.start())

    @pl.loop(0, blocks)
    def _(i):
        for_pages(i + 1, lambda copy: copy.start())
        for_pages(i, lambda copy: copy.wait())
        slot = i % 2
        attend_up_to(
            q_ref[...], k_slots[slot], v_slots[slot], length - i * cP, m_ref, l_ref, acc_ref
        )

    # END SOLUTION
    total = l_ref[...]
    o_ref[...] = (acc_ref[...] / jnp.where(total == 0, 1, total)).astype(o_ref.dtype)


def paged_attention_dma(
    lengths: Int32[Array, "B"],
    table: Int32[Array, "B T"],
    q: Float[Array, "B G R D"],
    k: Float[Array, "N G P D"],
    v: Float[Array, "N G P D"],
    *,
    c: int = 32,
) -> Float[Array, "B G R D"]:
    """Launch: one step for each sequence; the pools stay in HBM, with two slots of c pages each."""
    B, G, R, D = q.shape
    slots = pltpu.VMEM((2, G, c * k.shape[2], D), k.dtype)
    q_spec = pl.BlockSpec((None, G, R, D), lambda b, lengths, table: (b, 0, 0, 0))
    hbm = pl.BlockSpec(memory_space=pltpu.HBM)
    return pl.pallas_call(
        paged_attention_dma_kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(B,),
            in_specs=[q_spec, hbm, hbm],
            out_specs=q_spec,
            scratch_shapes=[
                slots,
                slots,
                pltpu.VMEM((G, R, 1), jnp.float32),
                pltpu.VMEM((G, R, 1), jnp.float32),
                pltpu.VMEM((G, R, D), jnp.float32),
                pltpu.SemaphoreType.DMA((2, 2)),
            ],
        ),
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("arbitrary",)),
        name="paged_attention_dma",
    )(lengths, table, q, k, v)


# ---- Given: inputs and helpers. ----


def attend_up_to(q, k, v, left, m_ref, l_ref, acc_ref):
    """One step of the online softmax of all heads, with the first `left` rows of k and v."""
    s = jnp.einsum("grd,gsd->grs", q, k, preferred_element_type=jnp.float32)
    here = jax.lax.broadcasted_iota(jnp.int32, s.shape, 2) < left
    s = jnp.where(here, s * q.shape[-1] ** -0.5, -jnp.inf)
    v = jnp.where(jax.lax.broadcasted_iota(jnp.int32, v.shape, 1) < left, v, 0)
    m_prev = m_ref[...]
    m_next = jnp.maximum(m_prev, jnp.max(s, axis=2, keepdims=True))
    alpha, p = jnp.exp(m_prev - m_next), jnp.exp(s - m_next)
    m_ref[...] = m_next
    l_ref[...] = alpha * l_ref[...] + jnp.sum(p, axis=2, keepdims=True)
    pv = jnp.einsum("grs,gsd->grd", p.astype(v.dtype), v, preferred_element_type=jnp.float32)
    acc_ref[...] = alpha * acc_ref[...] + pv


def paged_attention_dma_inputs(key, *, B, T, G, R, P, D, N, c, dtype):
    """Lengths: 0, 1, P, P + 1, c * P, more, all; scrambled pages; NaN in unused slots.

    All sequences with a full first page share it. Scores lie far apart.
    """
    q_key, size_key, key = jax.random.split(key, 3)
    k_key, v_key, length_key, order_key, page_key = jax.random.split(key, 5)
    size = jnp.exp(jax.random.uniform(size_key, (B, G, R, 1), maxval=3.5))
    # In sixteenths, so that every product and every sum is exact in float32.
    q = jnp.round(jax.random.normal(q_key, (B, G, R, D)) * size * 16) / 16
    k = jnp.round(jax.random.normal(k_key, (N, G, P, D)) * 16) / 16
    # All scores of the first query of a head are below -100.
    low = jnp.where(jnp.arange(D) == D - 1, -192, 0)
    k, q = k.at[..., -1].set(16), q.at[..., -1].set(0).at[:, :, 0].set(low)
    v = jax.random.normal(v_key, (N, G, P, D))
    lengths = jax.random.randint(length_key, (B,), 1, T * P + 1)
    lengths = jnp.concatenate([jnp.array([c * P + P + 1, 0, c * P, T * P, P + 1, P, 1]), lengths])[
        :B
    ]
    lengths = jax.random.permutation(order_key, lengths).astype(jnp.int32)
    pages = jax.random.permutation(page_key, N)[: B * T + 1].astype(jnp.int32)
    table = pages[1:].reshape(B, T)
    table = table.at[:, 0].set(jnp.where(lengths < P, table[:, 0], pages[0]))
    there = jnp.arange(P) < lengths[:, None, None] - P * jnp.arange(T)[:, None]
    used = jnp.zeros((N, P), bool).at[table].max(there)[:, None, :, None]
    k, v = (jnp.where(used, x, jnp.nan).astype(dtype) for x in (k, v))
    return lengths, table, q.astype(dtype), k, v


def test_paged_attention_dma(hidden_case):
    hidden_case.grade(paged_attention_dma)
