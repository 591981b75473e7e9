"""Right kernels of dynamic_blocks in other styles: see docs/authoring.md."""

# ---- columns_too ----

"""The grid has a second axis, for blocks of 128 columns.

Stars: 2 or 3
"""


def dynamic_blocks_kernel(starts, x_hbm, o_hbm, *, most):
    def length(g):
        return starts[g + 1] - starts[g]

    def step(x_ref, o_ref):
        n = length(pl.program_id(0))
        x = x_ref[...].astype(jnp.float32)
        row = jax.lax.broadcasted_iota(jnp.int32, (most, 128), 0)
        top = jnp.max(jnp.abs(x), axis=0, keepdims=True, where=row < n, initial=0)
        o_ref[...] = (x / top).astype(o_ref.dtype)

    block = pl.BlockSpec(
        (pl.BoundedSlice(most), 128),
        lambda g, j: (pl.ds(pl.multiple_of(starts[g], 16), length(g)), j),
    )
    grid = (starts.shape[0] - 1, x_hbm.shape[1] // 128)
    pltpu.emit_pipeline(step, grid=grid, in_specs=[block], out_specs=[block])(x_hbm, o_hbm)


# ---- in_pieces ----

"""A step goes through the rows that it has, sixteen at a time.

Stars: 2 or 3
"""


def dynamic_blocks_kernel(starts, x_hbm, o_hbm, *, most):
    D = x_hbm.shape[1]

    def block(g):
        start, end = starts[g], starts[g + 1]
        return pl.ds(pl.multiple_of(start, 16), end - start), 0

    def step(x_ref, o_ref):
        g = pl.program_id(0)
        pieces = (starts[g + 1] - starts[g]) // 16

        def piece(n):
            return pl.ds(pl.multiple_of(n * 16, 16), 16)

        def larger(n, top):
            rows = jnp.abs(x_ref[piece(n)].astype(jnp.float32))
            return jnp.maximum(top, rows.max(0, keepdims=True))

        top = jax.lax.fori_loop(0, pieces, larger, jnp.zeros((1, D), jnp.float32))

        @pl.loop(0, pieces)
        def _(n):
            o_ref[piece(n)] = (x_ref[piece(n)].astype(jnp.float32) / top).astype(o_ref.dtype)

    rows = pl.BlockSpec((pl.BoundedSlice(most), D), block)
    pltpu.emit_pipeline(step, grid=(starts.shape[0] - 1,), in_specs=[rows], out_specs=[rows])(
        x_hbm, o_hbm
    )
