"""Combines with einsum, and weights by log_softmax.

Stars: 3
"""


def moe_layer(x, logits, w_gate, w_up, w_down, *, top_k, tm, td, tf):
    T, D = x.shape
    E = w_gate.shape[0]
    top_logits, experts = jax.lax.top_k(logits, top_k)
    weights = jnp.exp(jax.nn.log_softmax(top_logits, axis=-1))
    expert_of_choice = experts.ravel()
    order = jnp.argsort(expert_of_choice, stable=True)
    token = order // top_k
    group_sizes = jnp.sum(expert_of_choice[:, None] == jnp.arange(E), axis=0, dtype=jnp.int32)
    hidden = grouped(
        gate_up_kernel, x[token], w_gate, w_up, group_sizes=group_sizes, tm=tm, tk=td, tn=tf
    )
    sorted_y = grouped(down_kernel, hidden, w_down, group_sizes=group_sizes, tm=tm, tk=tf, tn=td)
    y = sorted_y[jnp.argsort(order)].reshape(T, top_k, D)
    return jnp.einsum("tk,tkd->td", weights, y.astype(jnp.float32), precision="highest").astype(
        x.dtype
    )
