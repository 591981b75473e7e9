"""The outer pipeline goes through columns of blocks outside; the inner one is in a pallas_call.

Stars: 3
"""

import functools


def nested_pipeline(x, y, *, bm, bn, bk):
    M, N = y.shape

    def inner(acc_ref, x_ref, y_ref):
        acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

    def kernel(x_hbm, y_hbm, o_ref, acc_ref):
        j, i = pl.program_id(0), pl.program_id(1)
        acc_ref[...] = jnp.zeros_like(acc_ref)
        pltpu.emit_pipeline(
            functools.partial(inner, acc_ref),
            grid=(((i + 1) * bm + bk - 1) // bk,),
            in_specs=(
                pl.BlockSpec((bm, bk), lambda k: (i, k)),
                pl.BlockSpec((bk, bn), lambda k: (k, j)),
            ),
        )(x_hbm, y_hbm)
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)

    hbm = pl.BlockSpec(memory_space=pltpu.HBM)
    return pl.pallas_call(
        kernel,
        grid=(N // bn, M // bm),
        in_specs=[hbm, hbm],
        out_specs=pl.BlockSpec((bm, bn), lambda j, i: (i, j)),
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
    )(x, y)
