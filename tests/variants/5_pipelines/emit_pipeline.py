"""Right kernels of emit_pipeline in other styles: see docs/authoring.md."""

# ---- group_in_the_index_maps ----

"""Whole Refs go to the pipeline: the group's number stands in the index maps.

Stars: 3
"""


def emit_pipeline_kernel(lens, x_hbm, w_hbm, o_hbm, acc_ref, *, bm, bn, bk):
    e = pl.program_id(0)
    n = lens[e] // bk

    def step(x_ref, w_ref, o_ref):
        product = jnp.dot(x_ref[0], w_ref[0], preferred_element_type=jnp.float32)
        first = pl.program_id(2) == 0
        pl.when(first)(lambda: acc_ref.__setitem__(..., product))
        pl.when(~first)(lambda: acc_ref.__setitem__(..., acc_ref[...] + product))

        @pl.when(pl.program_id(2) == n - 1)
        def _():
            o_ref[0] = acc_ref[...].astype(o_ref.dtype)

    pltpu.emit_pipeline(
        step,
        grid=(o_hbm.shape[1] // bm, o_hbm.shape[2] // bn, n),
        in_specs=[
            pl.BlockSpec((1, bm, bk), lambda i, j, k: (e, i, k)),
            pl.BlockSpec((1, bk, bn), lambda i, j, k: (e, k, j)),
        ],
        out_specs=[pl.BlockSpec((1, bm, bn), lambda i, j, k: (e, i, j))],
    )(x_hbm, w_hbm, o_hbm)


# ---- stores_in_every_step ----

"""An accumulator of its own, from run_scoped; each step stores what it has so far.

Stars: 2 or 3
The store in each step takes up to a tenth of the time, which depends on libtpu.
"""


def emit_pipeline_kernel(lens, x_hbm, w_hbm, o_hbm, acc_ref, *, bm, bn, bk):
    e = pl.program_id(0)

    def scoped(total):
        def step(x_ref, w_ref, o_ref):
            before = jnp.where(pl.program_id(2) > 0, total[...], 0)
            product = jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)
            total[...] = before + product
            o_ref[...] = total[...].astype(o_ref.dtype)

        pltpu.emit_pipeline(
            step,
            grid=(o_hbm.shape[1] // bm, o_hbm.shape[2] // bn, lens[e] // bk),
            in_specs=[
                pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)),
                pl.BlockSpec((bk, bn), lambda i, j, k: (k, j)),
            ],
            out_specs=[pl.BlockSpec((bm, bn), lambda i, j, k: (i, j))],
        )(x_hbm.at[e], w_hbm.at[e], o_hbm.at[e])

    pl.run_scoped(scoped, pltpu.VMEM((bm, bn), jnp.float32))
