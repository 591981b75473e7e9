"""Takes the blocks in strips of 128 along k, in a loop that carries the sum.

Stars: 3
"""


def tiled_matmul_kernel(x_ref, y_ref, o_ref, acc_ref):
    k = pl.program_id(2)

    @pl.when(k == 0)
    def _():
        acc_ref[:, :] = jnp.zeros(acc_ref.shape, acc_ref.dtype)

    total = acc_ref[:, :]
    for start in range(0, x_ref.shape[1], 128):
        at = pl.ds(start, 128)
        total = total + jax.lax.dot(x_ref[:, at], y_ref[at, :], preferred_element_type=jnp.float32)
    acc_ref[:, :] = total

    @pl.when(k + 1 == pl.num_programs(2))
    def _():
        o_ref[:, :] = total.astype(o_ref.dtype)
