"""Right kernels of mla_absorbed in other styles: see docs/authoring.md."""

# ---- two_products ----

"""A product for each part of a score, and one branch for all blocks.

Stars: 2 or 3, since masking every block takes time that a copy hides or doesn't.
"""


def mla_absorbed_kernel(
    lengths_ref, queries_ref, rows_ref, o_ref, m_ref, l_ref, acc_ref, *, scale: float
):
    b, j = pl.program_id(0), pl.program_id(1)
    bs, R = rows_ref.shape[0], o_ref.shape[1]
    left = lengths_ref[b] - j * bs

    @pl.when(j == 0)
    def _():
        clear(m_ref, l_ref, acc_ref)

    @pl.when(left > 0)
    def _():
        rows = jnp.where(jnp.arange(bs)[:, None] < left, rows_ref[...], 0)
        s = scaled_scores(queries_ref[:, :R], rows[:, :R], scale)
        s += scaled_scores(queries_ref[:, R:], rows[:, R:], scale)
        s = jnp.where(jnp.arange(bs) < left, s, MASK_VALUE)
        attend_to(s, rows[:, :R], m_ref, l_ref, acc_ref)

    @pl.when(j == pl.num_programs(1) - 1)
    def _():
        store(o_ref, m_ref, l_ref, acc_ref)


# ---- zeroed_in_place ----

"""Zeroes the rows past the length in VMEM, and then attends in the same way in every block.

Stars: 3
"""


def mla_absorbed_kernel(
    lengths_ref, queries_ref, rows_ref, o_ref, m_ref, l_ref, acc_ref, *, scale: float
):
    b, j = pl.program_id(0), pl.program_id(1)
    bs, R = rows_ref.shape[0], o_ref.shape[1]
    left = lengths_ref[b] - j * bs

    @pl.when(j == 0)
    def _():
        clear(m_ref, l_ref, acc_ref)

    @pl.when((left > 0) & (left < bs))
    def _():
        number = jax.lax.broadcasted_iota(jnp.int32, rows_ref.shape, 0)
        rows_ref[...] = jnp.where(number < left, rows_ref[...], 0)

    @pl.when(left > 0)
    def _():
        s = scaled_scores(queries_ref[...], rows_ref[...], scale)
        column = jax.lax.broadcasted_iota(jnp.int32, s.shape, 1)
        attend_to(jnp.where(column < left, s, MASK_VALUE), rows_ref[:, :R], m_ref, l_ref, acc_ref)

    @pl.when(j == pl.num_programs(1) - 1)
    def _():
        store(o_ref, m_ref, l_ref, acc_ref)
