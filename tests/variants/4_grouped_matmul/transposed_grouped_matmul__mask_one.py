"""Masks both with a column, and keeps the sum in one lax.cond for each end of a group.

Stars: 3
"""


def transposed_grouped_matmul_kernel(
    group_offsets_ref, group_ids_ref, m_tile_ids_ref, x_ref, dy_ref, dw_ref, acc_ref
):
    visit, tm = pl.program_id(2), x_ref.shape[0]
    group = group_ids_ref[visit]
    first = m_tile_ids_ref[visit] * tm
    begin, end = group_offsets_ref[group], group_offsets_ref[group + 1]

    @pl.when(begin >= first)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    @pl.when(begin < end)
    def _():
        def own(ref):
            row = first + jax.lax.broadcasted_iota(jnp.int32, ref.shape, 0)
            theirs = (row < begin) | (row >= end)
            return jnp.where(theirs, jnp.zeros((), ref.dtype), ref[...])

        acc_ref[...] += jnp.einsum(
            "mk,mn->kn", own(x_ref), own(dy_ref), preferred_element_type=jnp.float32
        )

    @pl.when(end <= first + tm)
    def _():
        dw_ref[...] = acc_ref[...].astype(dw_ref.dtype)
