"""Right kernels of lookahead in other styles: see docs/authoring.md."""

# ---- blocks_numbered_by_rows ----

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


# ---- halves ----

"""The step's product in two halves, and blocks of the whole arrays' rank.

Stars: 2 or 3
"""


def lookahead_kernel(experts, x_hbm, w_hbm, o_hbm, *, bm):
    D, N = w_hbm.shape[1:]

    def expert(i):
        return experts[i], 0, 0

    def step(x_ref, w_ref, o_ref):
        half = N // 2 if N % 256 == 0 else N
        for columns in (slice(n, n + half) for n in range(0, N, half)):
            product = jnp.dot(x_ref[...], w_ref[0, :, columns], preferred_element_type=jnp.float32)
            o_ref[:, columns] = product.astype(o_ref.dtype)

    ahead = pl.Buffered(buffer_count=2, use_lookahead=True)
    rows, results = (pl.BlockSpec((bm, size), lambda i: (i, 0)) for size in (D, N))
    pltpu.emit_pipeline(
        step,
        grid=(x_hbm.shape[0] // bm,),
        in_specs=(rows, pl.BlockSpec((1, D, N), expert, pipeline_mode=ahead)),
        out_specs=results,
    )(x_hbm, w_hbm, o_hbm)
