"""Masks by comparing signs, starts its sums under pl.when.

Stars: 3
"""


def fused_outer_backward_kernel(x_ref, y_ref, dz_ref, dx_ref, dy_ref, dx_sum_ref, dy_sum_ref):
    i, j = pl.program_id(0), pl.program_id(1)
    bn = y_ref.shape[1]
    here = pl.ds(pl.multiple_of(j * bn, 128), bn)

    @pl.when(j == 0)
    def _():
        dx_sum_ref[...] = jnp.zeros_like(dx_sum_ref)

    @pl.when(i == 0)
    def _():
        dy_sum_ref[:, here] = jnp.zeros((1, bn), jnp.float32)

    x, y = x_ref[...].astype(jnp.float32), y_ref[...].astype(jnp.float32)
    slope = jnp.where((x > 0) == (y > 0), dz_ref[...].astype(jnp.float32), 0)
    dx_sum_ref[...] += jnp.sum(slope * y, axis=1, keepdims=True)
    dy_sum_ref[:, here] += jnp.sum(slope * x, axis=0, keepdims=True)
    dx_ref[...] = dx_sum_ref[...].astype(dx_ref.dtype)
    dy_ref[:, here] = dy_sum_ref[:, here].astype(dy_ref.dtype)
