"""Right kernels of group_offsets in other styles: see docs/authoring.md."""

# ---- at_set ----

"""Sets all offsets but the first in an array of zeros, by associative_scan.

Stars: 3
"""


def group_offsets(group_sizes):
    offsets = jnp.zeros(group_sizes.shape[0] + 1, dtype=group_sizes.dtype)
    return offsets.at[1:].set(jax.lax.associative_scan(jnp.add, group_sizes))


# ---- pad ----

"""Pads a cumulative sum.

Stars: 3
"""


def group_offsets(group_sizes):
    return jnp.pad(jnp.cumsum(group_sizes), (1, 0))


# ---- scan ----

"""A scan that carries the number of rows so far.

Stars: 3
"""


def group_offsets(group_sizes):
    def add(rows, size):
        return rows + size, rows

    total, starts = jax.lax.scan(add, jnp.int32(0), group_sizes)
    return jnp.append(starts, total)
