"""Adds weighted rows to their tokens, in the sorted order: no inverse permutation.

Stars: 3
"""


def moe_layer(x, logits, w_gate, w_up, w_down, *, top_k, tm, td, tf):
    T, D = x.shape
    E = len(w_gate)
    top_logits, experts = jax.lax.top_k(logits, top_k)
    weights = jax.nn.softmax(top_logits, axis=1).reshape(-1)
    choices = experts.reshape(-1)
    order = jnp.argsort(choices)
    token = jnp.tile(jnp.arange(T)[:, None], (1, top_k)).reshape(-1)[order]
    group_sizes = jnp.bincount(choices, length=E)
    hidden = grouped(
        gate_up_kernel, x[token], w_gate, w_up, group_sizes=group_sizes, tm=tm, tk=td, tn=tf
    )
    sorted_y = grouped(down_kernel, hidden, w_down, group_sizes=group_sizes, tm=tm, tk=tf, tn=td)
    weighted = weights[order][:, None] * sorted_y.astype(jnp.float32)
    return jnp.zeros((T, D), jnp.float32).at[token].add(weighted).astype(x.dtype)
