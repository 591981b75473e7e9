"""Right kernels of kernel_in_shard_map in other styles: see docs/authoring.md."""

# ---- axes_the_other_way ----

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


# ---- gathers_the_hidden_units ----

"""Gathers the hidden units and cuts w2 by columns: no sum is cut, and as much is sent.

Stars: 3
"""


def kernel_in_shard_map(x, w1, b1, w2, b2, *, mesh, bm=128, bn=128):
    columns = P(None, "model")

    def on_each(x, w1, b1, w2, b2):
        mine = hidden_layer(x, w1, b1, bm=bm, bn=bn)
        hidden = lax.all_gather(mine, "model", axis=1, tiled=True)
        wide = bn if w2.shape[1] % bn == 0 else w2.shape[1]
        return (product(hidden, w2, bm=bm, bn=wide) + b2).astype(x.dtype)

    return jax.shard_map(
        on_each,
        mesh=mesh,
        in_specs=(P("data"), columns, columns, columns, columns),
        out_specs=P("data", "model"),
        check_vma=False,
    )(x, w1, b1, w2, b2)


# ---- scatters_the_sum ----

"""Each chip keeps half of the columns of the sum, so that half as much is sent.

Stars: 3
"""


def kernel_in_shard_map(x, w1, b1, w2, b2, *, mesh, bm=128, bn=128):
    def on_each(x, w1, b1, w2, b2):
        hidden = hidden_layer(x, w1, b1, bm=bm, bn=bn)
        term = product(hidden, w2, bm=bm, bn=bn)
        mine = lax.psum_scatter(term, "model", scatter_dimension=1, tiled=True)
        return (mine + b2).astype(x.dtype)

    columns = P(None, "model")
    specs = (P("data", None), columns, columns, P("model", None), columns)
    both = P("data", "model")
    split = jax.shard_map(on_each, mesh=mesh, in_specs=specs, out_specs=both, check_vma=False)
    return split(x, w1, b1, w2, b2)
