"""Right kernels of two_spellings in other styles: see docs/authoring.md."""

# ---- columns_outermost ----

"""Goes through columns of blocks first, so that the biases come once for each of them.

Stars: 3
"""


def two_spellings(x, y, b, *, bm, bn):
    block = pl.BlockSpec((bm, bn), lambda j, i: (i, j))
    pipeline = pltpu.emit_pipeline(
        two_spellings_kernel,
        grid=(x.shape[1] // bn, x.shape[0] // bm),
        in_specs=[block, block, pl.BlockSpec((1, bn), lambda j, i: (0, j))],
        out_specs=[block],
    )

    def body(*refs):
        pipeline(*refs)

    return pl.kernel(body, jax.ShapeDtypeStruct(x.shape, x.dtype), mesh=one_core())(x, y, b)


# ---- decorated ----

"""pl.kernel as a decorator, and a pipeline whose output spec stands alone.

Stars: 3
"""


def two_spellings(x, y, b, *, bm, bn):
    block = pl.BlockSpec((bm, bn), lambda i, j: (i, j))

    @pl.kernel(out_type=jax.ShapeDtypeStruct(x.shape, x.dtype), mesh=one_core())
    def launched(*refs):
        grid = (pl.cdiv(x.shape[0], bm), pl.cdiv(x.shape[1], bn))
        biases = pl.BlockSpec((1, bn), lambda i, j: (0, j))
        pltpu.emit_pipeline(
            two_spellings_kernel, grid=grid, in_specs=(block, block, biases), out_specs=block
        )(*refs)

    return launched(x, y, b)


# ---- in_a_pallas_call ----

"""A pallas_call of one step whose Refs stay in HBM, with the pipeline in it.

Stars: 3
"""


def two_spellings(x, y, b, *, bm, bn):
    block = pl.BlockSpec((bm, bn), lambda i, j: (i, j))

    def body(*refs):
        pltpu.emit_pipeline(
            two_spellings_kernel,
            grid=(x.shape[0] // bm, x.shape[1] // bn),
            in_specs=[block, block, pl.BlockSpec((1, bn), lambda i, j: (0, j))],
            out_specs=[block],
        )(*refs)

    whole = pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(
        body,
        in_specs=[whole] * 3,
        out_specs=whole,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
    )(x, y, b)
