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
