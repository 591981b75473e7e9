"""Right kernels of transposed_grouped_matmul in other styles: see docs/authoring.md."""

# ---- mask_one ----

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


# ---- whole_tiles ----

"""Masks only where a tile is shared with another group.

Stars: 3
"""


def transposed_grouped_matmul_kernel(
    group_offsets_ref, group_ids_ref, m_tile_ids_ref, x_ref, dy_ref, dw_ref, acc_ref
):
    visit, tm = pl.program_id(2), x_ref.shape[0]
    group, first_row = group_ids_ref[visit], m_tile_ids_ref[visit] * tm
    start = group_offsets_ref[group] - first_row
    end = group_offsets_ref[group + 1] - first_row
    whole = (start <= 0) & (end >= tm)

    def product(x, dy):
        return jax.lax.dot_general(
            x, dy, (((0,), (0,)), ((), ())), preferred_element_type=jnp.float32
        )

    def masked(ref):
        row = jax.lax.broadcasted_iota(jnp.int32, ref.shape, 0)
        return jnp.where((row >= start) & (row < end), ref[...], 0)

    pl.when(start >= 0)(lambda: acc_ref.__setitem__(..., jnp.zeros_like(acc_ref)))

    @pl.when(whole)
    def _():
        acc_ref[...] += product(x_ref[...], dy_ref[...])

    @pl.when((start < end) & jnp.logical_not(whole))
    def _():
        acc_ref[...] += product(masked(x_ref), masked(dy_ref))

    @pl.when(end <= tm)
    def _():
        dw_ref[...] = acc_ref[...].astype(dw_ref.dtype)
