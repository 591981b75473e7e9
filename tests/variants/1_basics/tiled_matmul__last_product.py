"""Adds the last product on its way to the output: lax.cond and dot_general.

Stars: 3
"""


def tiled_matmul_kernel(x_ref, y_ref, o_ref, acc_ref):
    k, last = pl.program_id(2), pl.num_programs(2) - 1
    dimensions = (((1,), (0,)), ((), ()))
    total = jax.lax.dot_general(
        x_ref[...], y_ref[...], dimensions, preferred_element_type=jnp.float32
    ) + jnp.where(k == 0, 0, acc_ref[...])

    def keep():
        acc_ref[...] = total

    def store():
        o_ref[...] = total.astype(o_ref.dtype)

    jax.lax.cond(k == last, store, keep)
