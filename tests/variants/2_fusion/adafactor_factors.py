"""Right kernels of adafactor_factors in other styles: see docs/authoring.md."""

# ---- columns_at_the_end ----

"""Sums columns in scratch, by eight sublanes, and stores them in the last row of blocks.

Stars: 3
"""


def adafactor_factors_kernel(g_ref, rows_ref, columns_ref, sums_ref, *, M):
    (bm, bn), N = g_ref.shape, columns_ref.shape[1]
    i, j = pl.program_id(0), pl.program_id(1)
    here = pl.ds(pl.multiple_of(j * bn, 128), bn)
    left = jax.lax.broadcasted_iota(jnp.int32, (bm, 1), 0) < M - i * bm
    g = jnp.where(left, g_ref[...].astype(jnp.float32), 0)
    squares = g * g
    mean = jnp.sum(squares, axis=1, keepdims=True) / N
    rows_ref[...] = jnp.where(j == 0, mean, rows_ref[...] + mean)
    eights = jnp.sum(squares.reshape(bm // 8, 8, bn), axis=0)
    before = sums_ref[:, here]
    sums_ref[:, here] = jnp.where(i == 0, eights, before + eights)

    @pl.when(i == pl.num_programs(0) - 1)
    def _():
        columns_ref[:, here] = jnp.sum(sums_ref[:, here], axis=0, keepdims=True) / M


def adafactor_factors(g, *, bm, bn):
    M, N = g.shape
    return pl.pallas_call(
        functools.partial(adafactor_factors_kernel, M=M),
        grid=(pl.cdiv(M, bm), N // bn),
        in_specs=[pl.BlockSpec((bm, bn), lambda i, j: (i, j))],
        out_specs=[
            pl.BlockSpec((bm, 1), lambda i, j: (i, 0)),
            pl.BlockSpec((1, N), lambda i, j: (0, 0)),
        ],
        out_shape=[
            jax.ShapeDtypeStruct((M, 1), jnp.float32),
            jax.ShapeDtypeStruct((1, N), jnp.float32),
        ],
        scratch_shapes=[pltpu.VMEM((8, N), jnp.float32)],
    )(g)


# ---- columns_first ----

"""Has the columns' axis outermost: their blocks come and go, and all rows stay.

Stars: 3
"""


def adafactor_factors_kernel(g_ref, rows_ref, columns_ref, *, M, N):
    bm = g_ref.shape[0]
    j, i = pl.program_id(0), pl.program_id(1)
    here = pl.ds(pl.multiple_of(i * bm, 8), bm)
    row = i * bm + jax.lax.broadcasted_iota(jnp.int32, g_ref.shape, 0)
    squares = jnp.where(row < M, jnp.square(g_ref[...].astype(jnp.float32)), 0)

    @pl.when(j == 0)
    def _():
        rows_ref[here] = jnp.zeros((bm, 1), jnp.float32)

    @pl.when(i == 0)
    def _():
        columns_ref[...] = jnp.zeros_like(columns_ref)

    rows_ref[here] += jnp.sum(squares, axis=1, keepdims=True) / N
    columns_ref[...] += jnp.sum(squares, axis=0, keepdims=True) / M


def adafactor_factors(g, *, bm, bn):
    M, N = g.shape
    blocks = pl.cdiv(M, bm)
    rows, columns = pl.pallas_call(
        functools.partial(adafactor_factors_kernel, M=M, N=N),
        grid=(N // bn, blocks),
        in_specs=[pl.BlockSpec((bm, bn), lambda j, i: (i, j))],
        out_specs=(
            pl.BlockSpec((blocks * bm, 1), lambda j, i: (0, 0)),
            pl.BlockSpec((1, bn), lambda j, i: (0, j)),
        ),
        out_shape=(
            jax.ShapeDtypeStruct((blocks * bm, 1), jnp.float32),
            jax.ShapeDtypeStruct((1, N), jnp.float32),
        ),
    )(g)
    return rows[:M], columns
