"""Right kernels of ragged_paged_attention in other styles: see docs/authoring.md."""

# ---- from_the_first_token ----

"""Positions counted from the first token.

Stars: 3
"""


def ragged_paged_attention_kernel(
    lengths_ref, tables_ref, cu_q_lens_ref, seqs_ref, blocks_ref, turns_ref,
    q_ref, pages_hbm, o_ref, kv_ref, sems, m_ref, l_ref, acc_ref, *, R,
):  # fmt: skip
    bq = q_ref.shape[1] // R
    _, pages, _, _, page, D = kv_ref.shape
    bkv = pages * page
    step, steps = pl.program_id(0), pl.num_programs(0)
    seq, block, turn, slot = seqs_ref[step], blocks_ref[step], turns_ref[step], step % 2

    def end_of(step):
        end = cu_q_lens_ref[seqs_ref[step] + 1]
        return keys(lengths_ref[seqs_ref[step]], end, blocks_ref[step], bq)

    def copies(step, act):
        first = turns_ref[step] * pages

        @pl.loop(0, jnp.minimum(pl.cdiv(end_of(step), page) - first, pages))
        def _(i):
            source = pages_hbm.at[tables_ref[seqs_ref[step], first + i]]
            act(pltpu.make_async_copy(source, kv_ref.at[step % 2, i], sems.at[step % 2]))

    @pl.when(step == 0)
    def _():
        copies(0, lambda copy: copy.start())

    @pl.when(step + 1 < steps)
    def _():
        copies(step + 1, lambda copy: copy.start())

    copies(step, lambda copy: copy.wait())

    @pl.when(turn == 0)
    def _():
        clear(m_ref, l_ref, acc_ref)

    k, v = (of_heads(kv_ref[slot, :, n]) for n in range(2))
    end = end_of(step) - turn * bkv
    token = block * bq + jax.lax.broadcasted_iota(jnp.int32, (bq * R, 1), 0) // R
    new = token - cu_q_lens_ref[seq]
    tokens = cu_q_lens_ref[seq + 1] - cu_q_lens_ref[seq]
    position = lengths_ref[seq] - tokens + new
    key = turn * bkv + jax.lax.broadcasted_iota(jnp.int32, (1, bkv), 1)
    there = jax.lax.broadcasted_iota(jnp.int32, (bkv, 1), 0) < end
    s = jnp.where(key <= position, scores_of_heads(q_ref, k), MASK_VALUE)
    attend_by_heads(s, jnp.where(there, v, 0), m_ref, l_ref, acc_ref)

    @pl.when(end <= bkv)
    def _():
        own = (new >= 0) & (new < tokens)
        o = (acc_ref[...] / spread(l_ref[...], D)).astype(o_ref.dtype)
        o_ref[...] = jnp.where(own, o, o_ref[...])


# ---- head_by_head ----

"""A product for each head of keys, one after the other.

Stars: 3
"""


def ragged_paged_attention_kernel(
    lengths_ref, tables_ref, cu_q_lens_ref, seqs_ref, blocks_ref, turns_ref,
    q_ref, pages_hbm, o_ref, kv_ref, sems, m_ref, l_ref, acc_ref, *, R,
):  # fmt: skip
    bq = q_ref.shape[1] // R
    _, pages, _, _, page, D = kv_ref.shape
    bkv = pages * page
    step, steps = pl.program_id(0), pl.num_programs(0)
    seq, block, turn, slot = seqs_ref[step], blocks_ref[step], turns_ref[step], step % 2

    def end_of(step):
        end = cu_q_lens_ref[seqs_ref[step] + 1]
        return keys(lengths_ref[seqs_ref[step]], end, blocks_ref[step], bq)

    def copies(step, act):
        first = turns_ref[step] * pages

        @pl.loop(0, jnp.minimum(pl.cdiv(end_of(step), page) - first, pages))
        def _(i):
            source = pages_hbm.at[tables_ref[seqs_ref[step], first + i]]
            act(pltpu.make_async_copy(source, kv_ref.at[step % 2, i], sems.at[step % 2]))

    @pl.when(step == 0)
    def _():
        copies(0, lambda copy: copy.start())

    @pl.when(step + 1 < steps)
    def _():
        copies(step + 1, lambda copy: copy.start())

    copies(step, lambda copy: copy.wait())

    @pl.when(turn == 0)
    def _():
        clear(m_ref, l_ref, acc_ref)

    end = end_of(step) - turn * bkv
    token = block * bq + jax.lax.broadcasted_iota(jnp.int32, (bq * R, 1), 0) // R
    position = lengths_ref[seq] - cu_q_lens_ref[seq + 1] + token
    key = turn * bkv + jax.lax.broadcasted_iota(jnp.int32, (1, bkv), 1)
    there = jax.lax.broadcasted_iota(jnp.int32, (bkv, 1), 0) < end
    for g in range(q_ref.shape[0]):
        head = pl.ds(g, 1)
        k, v = (kv_ref[slot, :, n, g].reshape(1, bkv, D) for n in range(2))
        s = jnp.where(position < key, MASK_VALUE, scores_of_heads(q_ref.at[head], k))
        refs = (ref.at[head] for ref in (m_ref, l_ref, acc_ref))
        attend_by_heads(s, jnp.where(there, v, 0), *refs)

    @pl.when(end <= bkv)
    def _():
        own = (cu_q_lens_ref[seq] <= token) & (token < cu_q_lens_ref[seq + 1])
        o = (acc_ref[...] / spread(l_ref[...], D)).astype(o_ref.dtype)
        o_ref[...] = jnp.where(own, o, o_ref[...])
