"""Has the sequences outermost: the tables come in once for each of them, and that is little.

Stars: 3
"""


def rope(x, cos, sin, *, bn, bt):
    B, N, T, H = x.shape
    table_spec = pl.BlockSpec((bt, H // 2), lambda b, t, n: (t, 0))
    x_spec = pl.BlockSpec((1, bn, bt, H), lambda b, t, n: (b, n, t, 0))

    def kernel(x_ref, cos_ref, sin_ref, o_ref):
        rope_kernel(x_ref.at[0], cos_ref, sin_ref, o_ref.at[0])

    return pl.pallas_call(
        kernel,
        grid=(B, pl.cdiv(T, bt), N // bn),
        in_specs=[x_spec, table_spec, table_spec],
        out_specs=x_spec,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
    )(x, cos, sin)
