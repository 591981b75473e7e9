"""Multiplies tokens by their gates before they travel, and tells of its blocks first.

Stars: 3
"""


def expert_parallel_moe(x, w, expert, gate, *, mesh, bm=128, bn=512):
    n = mesh.shape["x"]

    def on_each(x, w, expert, gate):
        (t, D), L = x.shape, w.shape[0]
        chip, row, blocks = places(expert, n, L, bm)
        theirs = lax.all_to_all(blocks, "x", split_axis=0, concat_axis=0)
        send = jnp.zeros((n, t + L * bm, D), x.dtype).at[chip, row].set(x * gate[:, None])
        came = lax.all_to_all(send, "x", split_axis=0, concat_axis=0)
        made = multiplied(came, w, theirs, bm=bm, bn=bn)
        return lax.all_to_all(made, "x", split_axis=0, concat_axis=0)[chip, row]

    specs = P("x"), P("x"), P("x"), P("x")
    return jax.shard_map(
        on_each, mesh=mesh, in_specs=specs, out_specs=P("x", None), check_vma=False
    )(x, w, expert, gate)
