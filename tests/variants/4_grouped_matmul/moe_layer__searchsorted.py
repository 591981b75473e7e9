"""Finds the groups' ends in the sorted choices with searchsorted; undoes the order by a scatter.

Stars: 3
"""


def moe_layer(x, logits, w_gate, w_up, w_down, *, top_k, tm, td, tf):
    T, D = x.shape
    E, M = len(w_gate), T * top_k
    top_logits, experts = jax.lax.top_k(logits, top_k)
    weights = jnp.exp(top_logits - jax.nn.logsumexp(top_logits, axis=1, keepdims=True))
    choices = experts.reshape(-1)
    order = jnp.argsort(choices)
    ends = jnp.searchsorted(choices[order], jnp.arange(E), side="right")
    group_sizes = jnp.diff(ends, prepend=0).astype(jnp.int32)
    hidden = grouped(
        gate_up_kernel,
        jnp.take(x, order // top_k, axis=0),
        w_gate,
        w_up,
        group_sizes=group_sizes,
        tm=tm,
        tk=td,
        tn=tf,
    )
    sorted_y = grouped(down_kernel, hidden, w_down, group_sizes=group_sizes, tm=tm, tk=tf, tn=td)
    place = jnp.zeros(M, jnp.int32).at[order].set(jnp.arange(M, dtype=jnp.int32))
    y = jnp.take(sorted_y, place, axis=0).reshape(T, top_k, D)
    return jnp.sum(weights[..., None] * y, axis=1).astype(x.dtype)
