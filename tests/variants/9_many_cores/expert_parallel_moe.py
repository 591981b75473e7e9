"""Right kernels of expert_parallel_moe in other styles: see docs/authoring.md."""

# ---- gates_before_it_sends ----

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


# ---- tiled_exchange ----

"""Keeps all rooms below each other: an exchange that is tiled, and one number for a token's place.

Stars: 3
"""


def expert_parallel_moe(x, w, expert, gate, *, mesh, bm=128, bn=512):
    n = mesh.shape["x"]

    def exchanged(rows):
        return lax.all_to_all(rows, "x", 0, 0, tiled=True)

    def on_each(x, w, expert, gate):
        (t, D), L = x.shape, len(w)
        room = t + L * bm
        chip, row, blocks = places(expert, n, L, bm)
        place = chip * room + row
        came = exchanged(jnp.zeros((n * room, D), x.dtype).at[place].set(x))
        made = multiplied(came.reshape(n, room, D), w, exchanged(blocks), bm=bm, bn=bn)
        back = exchanged(made.reshape(n * room, -1))
        return jnp.take(back, place, axis=0) * gate[:, None]

    cut = P("x")
    return jax.shard_map(on_each, mesh=mesh, in_specs=cut, out_specs=cut, check_vma=False)(
        x, w, expert, gate
    )
