"""The grid from the rows of x, and a step that names its product's dimensions.

Stars: 3
"""


def lookahead_kernel(experts, x_hbm, w_hbm, o_hbm, *, bm):
    (T, D), N = x_hbm.shape, w_hbm.shape[2]

    def step(x_ref, w_ref, o_ref):
        dimensions = (((1,), (0,)), ((), ()))
        o_ref[...] = jax.lax.dot_general(
            x_ref[...], w_ref[0], dimensions, preferred_element_type=jnp.float32
        ).astype(o_ref.dtype)

    pipeline = pltpu.emit_pipeline(
        step,
        grid=(T // bm,),
        in_specs=[
            pl.BlockSpec((bm, D), lambda i: (i, 0)),
            pl.BlockSpec(
                (1, D, N),
                lambda i: (experts[i], 0, 0),
                pipeline_mode=pl.Buffered(use_lookahead=True, buffer_count=2),
            ),
        ],
        out_specs=[pl.BlockSpec((bm, N), lambda i: (i, 0))],
    )
    pipeline(x_hbm, w_hbm, o_hbm)
