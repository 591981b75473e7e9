"""Combines one token at a time in a vmap, and numbers the tokens with repeat.

Stars: 3
"""


def moe_layer(x, logits, w_gate, w_up, w_down, *, top_k, tm, td, tf):
    T, _ = x.shape
    E = len(w_gate)
    top_logits, experts = jax.lax.top_k(logits, top_k)
    weights = jax.vmap(jax.nn.softmax)(top_logits)
    choices = experts.reshape(T * top_k)
    order = jnp.argsort(choices)
    token = jnp.repeat(jnp.arange(T), top_k)[order]
    group_sizes = jnp.bincount(choices, length=E)
    hidden = grouped(
        gate_up_kernel, x[token], w_gate, w_up, group_sizes=group_sizes, tm=tm, tk=td, tn=tf
    )
    sorted_y = grouped(down_kernel, hidden, w_down, group_sizes=group_sizes, tm=tm, tk=tf, tn=td)
    place = jnp.argsort(order).reshape(T, top_k)

    def combine(weights, rows):
        return jnp.sum(weights[:, None] * sorted_y[rows].astype(jnp.float32), axis=0)

    return jax.vmap(combine)(weights, place).astype(x.dtype)
