"""Right kernels of moe_layer in other styles: see docs/authoring.md."""

# ---- einsum ----

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


# ---- flipped_argsort ----

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


# ---- scan ----

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


# ---- searchsorted ----

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


# ---- segment_sum ----

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


# ---- vmap ----

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
