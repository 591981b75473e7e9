"""Stores in the first step and adds in all others.

Stars: 3
"""


def row_sum_kernel(x_ref, o_ref):
    j = pl.program_id(1)
    total = jnp.sum(x_ref[...], axis=1, dtype=jnp.float32)[:, None]

    @pl.when(j == 0)
    def _():
        o_ref[...] = total

    @pl.when(j != 0)
    def _():
        o_ref[...] = o_ref[...] + total
