"""Chooses experts by an argsort read from its end, and sorts choices with keys in lax.sort.

Stars: 3
"""


def moe_layer(x, logits, w_gate, w_up, w_down, *, top_k, tm, td, tf):
    T, _ = x.shape
    E, M = len(w_gate), T * top_k
    experts = jnp.argsort(logits, axis=1)[:, ::-1][:, :top_k]
    weights = jax.nn.softmax(jnp.take_along_axis(logits, experts, axis=1), axis=1)
    _, order = jax.lax.sort((experts.reshape(M), jnp.arange(M)), num_keys=1)
    group_sizes = jnp.zeros(E, jnp.int32).at[experts.reshape(M)].add(1)
    hidden = grouped(
        gate_up_kernel,
        x[order // top_k],
        w_gate,
        w_up,
        group_sizes=group_sizes,
        tm=tm,
        tk=td,
        tn=tf,
    )
    sorted_y = grouped(down_kernel, hidden, w_down, group_sizes=group_sizes, tm=tm, tk=tf, tn=td)
    place = jnp.argsort(order).reshape(T, top_k)
    total = sum(weights[:, c, None] * sorted_y[place[:, c]] for c in range(top_k))
    return total.astype(x.dtype)
