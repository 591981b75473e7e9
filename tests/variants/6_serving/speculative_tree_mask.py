"""Right kernels of speculative_tree_mask in other styles: see docs/authoring.md."""

# ---- one_branch ----

"""One branch: blocks without drafts are masked too, by bits that are shifted out.

Stars: 2 or 3, since masking every block takes time that a copy hides or doesn't.
"""


def speculative_tree_mask_kernel(
    lengths_ref, tree_ref, q_ref, k_ref, v_ref, o_ref, m_ref, l_ref, acc_ref
):
    b, j = pl.program_id(0), pl.program_id(2)
    T, bs = tree_ref.shape[1], k_ref.shape[0]
    end = lengths_ref[b] + T

    @pl.when(j == 0)
    def _():
        clear(m_ref, l_ref, acc_ref)

    @pl.when(j * bs < end)
    def _():
        s = scores(q_ref, k_ref)
        t = jax.lax.broadcasted_iota(jnp.int32, (s.shape[0], 1), 0) % T
        bits = jnp.full_like(t, tree_ref[b, 0])
        for n in range(1, T):
            bits = jnp.where(t == n, tree_ref[b, n], bits)
        draft = jax.lax.broadcasted_iota(jnp.int32, (1, bs), 1) + j * bs - lengths_ref[b]
        bit = jnp.right_shift(bits, jnp.clip(draft, 0, T - 1)) & 1
        sees = (draft < T) & ((draft < 0) | (bit == 1))
        row = jax.lax.broadcasted_iota(jnp.int32, v_ref.shape, 0)
        v = jnp.where(row + j * bs < end, v_ref[...], 0)
        attend_to(jnp.where(sees, s, MASK_VALUE), v, m_ref, l_ref, acc_ref)

    @pl.when(j == pl.num_programs(2) - 1)
    def _():
        o_ref[...] = (acc_ref[...] / widened(l_ref[...], o_ref.shape[1])).astype(o_ref.dtype)


# ---- power_of_two ----

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
