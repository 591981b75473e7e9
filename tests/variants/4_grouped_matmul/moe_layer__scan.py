"""Counts tokens with a scan over experts and adds the choices of a token in a fori_loop.

Stars: 3
"""


def moe_layer(x, logits, w_gate, w_up, w_down, *, top_k, tm, td, tf):
    T, D = x.shape
    E = len(w_gate)
    top_logits, experts = jax.lax.top_k(logits, top_k)
    weights = jax.nn.softmax(top_logits, axis=1)
    choices = experts.reshape(T * top_k)
    order = jnp.argsort(choices)

    def count(_, expert):
        return None, jnp.sum(choices == expert, dtype=jnp.int32)

    _, group_sizes = jax.lax.scan(count, None, jnp.arange(E))
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
    y = sorted_y[jnp.argsort(order)].reshape(T, top_k, D)

    def add(choice, total):
        return total + weights[:, choice, None] * y[:, choice].astype(jnp.float32)

    return jax.lax.fori_loop(0, top_k, add, jnp.zeros((T, D), jnp.float32)).astype(x.dtype)
