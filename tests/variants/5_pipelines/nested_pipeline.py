"""Right kernels of nested_pipeline in other styles: see docs/authoring.md."""

# ---- columns_outermost ----

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


# ---- flat_grid ----

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


# ---- slices_and_run_scoped ----

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
