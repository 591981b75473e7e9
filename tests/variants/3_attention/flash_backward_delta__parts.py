"""Takes 128 rows at a time, and transposes both factors before the product.

Stars: 3
"""


def flash_backward_delta_kernel(o_ref, do_ref, delta_ref):
    for start in range(0, o_ref.shape[0], 128):
        at = pl.ds(start, 128)
        o = o_ref[at, :].astype(jnp.float32)
        do = do_ref[at, :].astype(jnp.float32)
        delta_ref[:, at] = jnp.sum((o * do).T, axis=0)[None]
