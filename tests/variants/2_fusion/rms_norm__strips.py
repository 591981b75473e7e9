"""Takes 8 rows of the block at a time, one register high, so that little has to be kept.

Stars: 3
"""


def rms_norm_kernel(x_ref, w_ref, o_ref):
    @pl.loop(0, x_ref.shape[0] // 8)
    def _(strip):
        rows = pl.ds(pl.multiple_of(strip * 8, 8), 8)
        x = x_ref[rows, :].astype(jnp.float32)
        mean = jnp.mean(jnp.square(x), axis=1, keepdims=True)
        o_ref[rows, :] = (x * jax.lax.rsqrt(mean + EPS) * w_ref[...]).astype(o_ref.dtype)
