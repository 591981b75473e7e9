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
