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
