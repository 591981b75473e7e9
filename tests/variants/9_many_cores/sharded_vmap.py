"""Right kernels of sharded_vmap in other styles: see docs/authoring.md."""

# ---- groups_before_the_shard_map ----

"""Makes the groups a dimension of q before it is cut, and cuts the sequences along model.

Stars: 3
"""


def sharded_vmap(q, k, v, *, mesh):
    (B, H, T, D), KV = q.shape, k.shape[1]

    def on_each(q, k, v):
        return jax.vmap(jax.vmap(jax.vmap(attend, (0, None, None))))(q, k, v)

    cut = P("model", "data")
    split = jax.shard_map(on_each, mesh=mesh, in_specs=cut, out_specs=cut, check_vma=False)
    return split(q.reshape(B, KV, H // KV, T, D), k, v).reshape(B, H, T, D)


# ---- one_axis_for_all_keys ----

"""Sequences and heads of keys are one axis on each chip, and the groups another.

Stars: 3
"""


def sharded_vmap(q, k, v, *, mesh):
    def on_each(q, k, v):
        T, D = q.shape[2:]
        k, v = k.reshape(-1, *k.shape[2:]), v.reshape(-1, *v.shape[2:])
        of_keys = jax.vmap(lambda q, k, v: jax.vmap(lambda one: attend(one, k, v))(q))
        return of_keys(q.reshape(len(k), -1, T, D), k, v).reshape(q.shape)

    heads = P("data", "model", None, None)
    return jax.shard_map(
        on_each, mesh=mesh, in_specs=(heads, heads, heads), out_specs=heads, check_vma=False
    )(q, k, v)
