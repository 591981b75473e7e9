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
