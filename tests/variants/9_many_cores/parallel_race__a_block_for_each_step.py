"""No step adds to what another one wrote: each has a block of sums, and XLA adds all of them.

Stars: 3
"""


def parallel_race(x, *, bm=512):
    M, N = x.shape

    def kernel(x_ref, o_ref):
        x = x_ref[...].astype(jnp.float32)
        o_ref[...] = jnp.sum((x * x).reshape(-1, 8, N), axis=0)

    sums = pl.pallas_call(
        kernel,
        grid=(M // bm,),
        in_specs=[pl.BlockSpec((bm, N), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((8, N), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((M // bm * 8, N), jnp.float32),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
    )(x)
    return jnp.sum(sums).reshape(1, 1)
