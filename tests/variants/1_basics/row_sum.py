"""Right kernels of row_sum in other styles: see docs/authoring.md."""

# ---- first_stores ----

"""Stores in the first step and adds in all others.

Stars: 3
"""


def row_sum_kernel(x_ref, o_ref):
    j = pl.program_id(1)
    total = jnp.sum(x_ref[...], axis=1, dtype=jnp.float32)[:, None]

    @pl.when(j == 0)
    def _():
        o_ref[...] = total

    @pl.when(j != 0)
    def _():
        o_ref[...] = o_ref[...] + total


# ---- lane_sums ----

"""Adds whole registers in a scratch of 128 lanes, and sums over lanes once, at the end.

Stars: 3
"""


def row_sum(x, *, bm, bn):
    M, N = x.shape

    def kernel(x_ref, o_ref, lanes_ref):
        @pl.when(pl.program_id(1) == 0)
        def _():
            lanes_ref[...] = jnp.zeros_like(lanes_ref)

        for start in range(0, bn, 128):
            lanes_ref[...] += x_ref[:, start : start + 128].astype(jnp.float32)

        @pl.when(pl.program_id(1) == pl.num_programs(1) - 1)
        def _():
            o_ref[...] = jnp.sum(lanes_ref[...], axis=1, keepdims=True)

    return pl.pallas_call(
        kernel,
        grid=(M // bm, N // bn),
        in_specs=[pl.BlockSpec((bm, bn), lambda i, j: (i, j))],
        out_specs=pl.BlockSpec((bm, 1), lambda i, j: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((M, 1), jnp.float32),
        scratch_shapes=[pltpu.VMEM((bm, 128), jnp.float32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
    )(x)


# ---- where ----

"""Chooses between 0 and the sum so far with where, and stores once.

In the first step, what is read is not used.

Stars: 3
"""


def row_sum_kernel(x_ref, o_ref):
    so_far = jnp.where(pl.program_id(1) == 0, 0.0, o_ref[...])
    o_ref[...] = so_far + jnp.sum(x_ref[...].astype(jnp.float32), axis=-1, keepdims=True)


# ---- branch_with_a_value ----

"""Chooses by lax.cond between the first sum and one that adds to the block.

Stars: 3
"""


def row_sum_kernel(x_ref, o_ref):
    part = x_ref[...].astype(jnp.float32).sum(axis=-1)[:, None]
    first = pl.program_id(1) == 0
    o_ref[...] = jax.lax.cond(first, lambda: part, lambda: o_ref[...] + part)


# ---- one_pipeline ----

"""The whole grid runs as one emit_pipeline in a kernel without a grid.

Stars: 3
"""


def row_sum(x, *, bm, bn):
    M, N = x.shape

    def add(x_ref, o_ref):
        @pl.when(pl.program_id(1) == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += jnp.sum(x_ref[...], axis=1, keepdims=True, dtype=jnp.float32)

    def kernel(x_hbm, o_hbm):
        pltpu.emit_pipeline(
            add,
            grid=(M // bm, N // bn),
            in_specs=[pl.BlockSpec((bm, bn), lambda i, j: (i, j))],
            out_specs=[pl.BlockSpec((bm, 1), lambda i, j: (i, 0))],
        )(x_hbm, o_hbm)

    hbm = pl.BlockSpec(memory_space=pltpu.HBM)
    return pl.pallas_call(
        kernel,
        in_specs=[hbm],
        out_specs=hbm,
        out_shape=jax.ShapeDtypeStruct((M, 1), jnp.float32),
    )(x)
