"""Right kernels of masked_store in other styles: see docs/authoring.md."""

# ---- column_mask ----

"""Compares a column of row numbers and keeps the others with lax.select.

Stars: 3
"""


def masked_store_kernel(group_offsets_ref, group_ids_ref, m_tile_ids_ref, x_ref, bias_ref, o_ref):
    visit = pl.program_id(1)
    y = jnp.add(x_ref[:, :], bias_ref[0, :])
    tm, tn = o_ref.shape
    group = group_ids_ref[visit]
    row = jax.lax.broadcasted_iota(jnp.int32, (tm, tn), 0) + m_tile_ids_ref[visit] * tm
    theirs = jnp.logical_or(row < group_offsets_ref[group], row >= group_offsets_ref[group + 1])
    o_ref[:, :] = jax.lax.select(theirs, o_ref[:, :], y)


# ---- cond ----

"""Stores without a mask where the whole tile is the group's.

Stars: 3
"""


def masked_store_kernel(group_offsets_ref, group_ids_ref, m_tile_ids_ref, x_ref, bias_ref, o_ref):
    visit = pl.program_id(1)
    y = x_ref[...] + bias_ref[...]
    tm = o_ref.shape[0]
    group, first_row = group_ids_ref[visit], m_tile_ids_ref[visit] * tm
    begin = group_offsets_ref[group] - first_row
    end = group_offsets_ref[group + 1] - first_row
    whole = (begin <= 0) & (end >= tm)

    @pl.when(whole)
    def _():
        o_ref[...] = y

    @pl.when(jnp.logical_not(whole))
    def _():
        row = jax.lax.broadcasted_iota(jnp.int32, o_ref.shape, 0)
        o_ref[...] = jnp.where((begin <= row) & (row < end), y, o_ref[...])
