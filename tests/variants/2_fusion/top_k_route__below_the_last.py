"""Blanks nothing: a turn looks for what comes after the last one, by value and then by number.

Stars: 2, since each turn compares twice, where blanking compares once.
"""


def top_k_route_kernel(logits_ref, weights_ref, experts_ref):
    logits = logits_ref[...].astype(jnp.float32)
    expert = jax.lax.broadcasted_iota(jnp.int32, logits.shape, 0)
    value, place = jnp.inf, -1
    values = []
    for k in range(len(weights_ref)):
        after = (logits < value) | ((logits == value) & (expert > place))
        left = jnp.where(after, logits, -jnp.inf)
        value = jnp.max(left, axis=0, keepdims=True)
        place = jnp.min(jnp.where(left == value, expert, len(logits)), axis=0, keepdims=True)
        experts_ref[k] = place[0]
        values.append(value)
    weights = jax.nn.softmax(jnp.concatenate(values), axis=0)
    weights_ref[...] = weights.astype(weights_ref.dtype)
