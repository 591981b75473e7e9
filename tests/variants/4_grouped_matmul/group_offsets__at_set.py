"""Sets all offsets but the first in an array of zeros, by associative_scan.

Stars: 3
"""


def group_offsets(group_sizes):
    offsets = jnp.zeros(group_sizes.shape[0] + 1, dtype=group_sizes.dtype)
    return offsets.at[1:].set(jax.lax.associative_scan(jnp.add, group_sizes))
