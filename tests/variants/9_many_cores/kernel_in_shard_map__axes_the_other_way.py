"""Cuts the rows along "model" and the hidden units along "data": the axes are two names.

Stars: 3
"""


def kernel_in_shard_map(x, w1, b1, w2, b2, *, mesh, bm=128, bn=128):
    rows, units = reversed(mesh.axis_names)

    def of_chip(x, w1, b1, w2, b2):
        hidden = hidden_layer(x, w1, b1, bm=bm, bn=bn)
        total = lax.psum(product(hidden, w2, bm=bm, bn=bn), (units,))
        return (b2 + total).astype(x.dtype)

    specs = P(rows, None), P(None, units), P(None, units), P(units, None), P(None, None)
    of_all = jax.shard_map(
        of_chip, mesh=mesh, in_specs=specs, out_specs=P(rows, None), check_vma=False
    )
    return of_all(x, w1, b1, w2, b2)
