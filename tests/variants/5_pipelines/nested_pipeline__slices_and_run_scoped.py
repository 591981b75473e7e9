"""The inner pipeline gets views of one strip of x and of y, and the accumulator is allocated in it.

Stars: 3
"""


def nested_pipeline(x, y, *, bm, bn, bk):
    M, N = y.shape

    def outer(x_hbm, y_hbm, o_ref, acc_ref):
        i, j = pl.program_id(0), pl.program_id(1)

        def inner(x_ref, y_ref):
            acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

        acc_ref[...] = jnp.zeros_like(acc_ref)
        pltpu.emit_pipeline(
            inner,
            grid=(pl.cdiv((i + 1) * bm, bk),),
            in_specs=[
                pl.BlockSpec((bm, bk), lambda k: (0, k)),
                pl.BlockSpec((bk, bn), lambda k: (k, 0)),
            ],
        )(x_hbm.at[pl.ds(i * bm, bm)], y_hbm.at[:, pl.ds(j * bn, bn)])
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)

    @pl.kernel(out_type=jax.ShapeDtypeStruct((M, N), x.dtype), mesh=one_core())
    def launched(x_hbm, y_hbm, o_hbm):
        def scoped(acc_ref):
            pltpu.emit_pipeline(
                lambda o_ref: outer(x_hbm, y_hbm, o_ref, acc_ref),
                grid=(M // bm, N // bn),
                out_specs=[pl.BlockSpec((bm, bn), lambda i, j: (i, j))],
            )(o_hbm)

        pl.run_scoped(scoped, pltpu.VMEM((bm, bn), jnp.float32))

    return launched(x, y)
