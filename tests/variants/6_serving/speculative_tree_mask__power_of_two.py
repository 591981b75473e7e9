"""Asks for the bit by an and with a power of two, and masks the bits that are no drafts away.

Stars: 3
"""


def speculative_tree_mask_kernel(
    lengths_ref, tree_ref, q_ref, k_ref, v_ref, o_ref, m_ref, l_ref, acc_ref
):
    b, j = pl.program_id(0), pl.program_id(2)
    T, bs = tree_ref.shape[1], k_ref.shape[0]
    begin = lengths_ref[b] - j * bs

    @pl.when(j == 0)
    def _():
        clear(m_ref, l_ref, acc_ref)

    @pl.when(begin >= bs)
    def _():
        attend_to(scores(q_ref, k_ref), v_ref[...], m_ref, l_ref, acc_ref)

    @pl.when((begin < bs) & (begin > -T))
    def _():
        s = scores(q_ref, k_ref)
        row = jax.lax.broadcasted_iota(jnp.int32, (s.shape[0], 1), 0)
        bits = sum(jnp.where(jax.lax.rem(row, T) == n, tree_ref[b, n], 0) for n in range(T))
        draft = jax.lax.broadcasted_iota(jnp.int32, (1, bs), 1) - begin
        power = jnp.where((draft >= 0) & (draft < T), jnp.left_shift(1, jnp.clip(draft, 0, 31)), 0)
        sees = (draft < 0) | ((bits & power) != 0)
        v_ref[...] = jnp.where(
            jax.lax.broadcasted_iota(jnp.int32, v_ref.shape, 0) < begin + T, v_ref[...], 0
        )
        attend_to(jnp.where(sees, s, MASK_VALUE), v_ref[...], m_ref, l_ref, acc_ref)

    @pl.when(j == pl.num_programs(2) - 1)
    def _():
        o_ref[...] = (acc_ref[...] / widened(l_ref[...], o_ref.shape[1])).astype(o_ref.dtype)
