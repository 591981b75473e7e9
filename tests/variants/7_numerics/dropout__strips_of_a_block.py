"""Each block in strips of 16 rows, drawn one after the other.

Stars: 3
"""


def dropout_kernel(seed_ref, x_ref, o_ref, *, percent):
    pltpu.prng_seed(seed_ref[0], pl.program_id(0) * pl.num_programs(1) + pl.program_id(1))
    threshold = 2**31 * percent // 100 * 2 - 2**31

    @pl.loop(0, x_ref.shape[0] // 16)
    def _(strip):
        rows = pl.ds(pl.multiple_of(strip * 16, 16), 16)
        x = x_ref[rows, :].astype(jnp.float32)
        dropped = pltpu.prng_random_bits(x.shape) < threshold
        o_ref[rows, :] = jnp.where(dropped, 0, x / (1 - percent / 100)).astype(o_ref.dtype)
