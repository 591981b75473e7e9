"""One grid with three axes; its steps beyond the diagonal fetch nothing and add nothing.

Stars: 3
"""


def nested_pipeline(x, y, *, bm, bn, bk):
    M, N = y.shape

    def last(i):
        return ((i + 1) * bm + bk - 1) // bk - 1

    def kernel(x_ref, y_ref, o_ref, acc_ref):
        i, k = pl.program_id(0), pl.program_id(2)

        @pl.when(k == 0)
        def _():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        @pl.when(k <= last(i))
        def _():
            acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

        @pl.when(k == last(i))
        def _():
            o_ref[...] = acc_ref[...].astype(o_ref.dtype)

    return pl.pallas_call(
        kernel,
        grid=(M // bm, N // bn, M // bk),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda i, j, k: (i, jnp.minimum(k, last(i)))),
            pl.BlockSpec((bk, bn), lambda i, j, k: (jnp.minimum(k, last(i)), j)),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
    )(x, y)
