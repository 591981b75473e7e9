"""Right kernels of ragged_grouped_matmul in other styles: see docs/authoring.md."""

# ---- always_add ----

"""Adds every product to the scratch, and then stores.

Stars: 3
"""


def ragged_grouped_matmul_kernel(
    group_offsets_ref, group_ids_ref, m_tile_ids_ref, x_ref, w_ref, o_ref, acc_ref
):
    visit, k = pl.program_id(1), pl.program_id(2)
    product = jnp.einsum("mk,kn->mn", x_ref[...], w_ref[...], preferred_element_type=jnp.float32)

    @pl.when(k == 0)
    def _():
        acc_ref[...] = product

    @pl.when(k != 0)
    def _():
        acc_ref[...] += product

    @pl.when(k == pl.num_programs(2) - 1)
    def _():
        group = group_ids_ref[visit]
        tm = o_ref.shape[0]
        start = group_offsets_ref[group] - m_tile_ids_ref[visit] * tm
        size = group_offsets_ref[group + 1] - group_offsets_ref[group]
        row = jax.lax.broadcasted_iota(jnp.int32, o_ref.shape, 0) - start
        mine = jnp.logical_and(row >= 0, row < size)
        o_ref[...] = jnp.where(mine, acc_ref[...].astype(o_ref.dtype), o_ref[...])


# ---- wide_select ----

"""Selects in float32, and stores whole tiles without a mask.

Stars: 3
"""


def ragged_grouped_matmul_kernel(
    group_offsets_ref, group_ids_ref, m_tile_ids_ref, x_ref, w_ref, o_ref, acc_ref
):
    visit, k, steps = pl.program_id(1), pl.program_id(2), pl.num_programs(2)
    tm = x_ref.shape[0]
    group = group_ids_ref[visit]
    first = m_tile_ids_ref[visit] * tm
    begin, end = group_offsets_ref[group], group_offsets_ref[group + 1]

    @pl.when(k == 0)
    def _():
        acc_ref[...] = jnp.zeros(acc_ref.shape, jnp.float32)

    acc_ref[...] += jax.lax.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)

    @pl.when(k == steps - 1)
    def _():
        def all_rows():
            o_ref[...] = acc_ref[...].astype(o_ref.dtype)

        def own_rows():
            row = first + jax.lax.broadcasted_iota(jnp.int32, o_ref.shape, 0)
            before = o_ref[...].astype(jnp.float32)
            mine = (begin <= row) & (row < end)
            o_ref[...] = jnp.where(mine, acc_ref[...], before).astype(o_ref.dtype)

        jax.lax.cond((begin <= first) & (first + tm <= end), all_rows, own_rows)
