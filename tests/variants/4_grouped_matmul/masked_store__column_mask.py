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
