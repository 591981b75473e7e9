"""Right kernels of top_k_route in other styles: see docs/authoring.md."""

# ---- below_the_last ----

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


# ---- fori_loop ----

"""Loops over the ranks with what is left in VMEM scratch, and weighs the values of the result.

Stars: 3
"""


def top_k_route_kernel(logits_ref, weights_ref, experts_ref, left_ref, values_ref):
    left_ref[...] = logits_ref[...].astype(jnp.float32)
    expert = jax.lax.broadcasted_iota(jnp.int32, left_ref.shape, 0)

    @pl.loop(0, len(weights_ref))
    def _(k):
        left = left_ref[...]
        top = jnp.max(left, axis=0, keepdims=True)
        place = jnp.min(jnp.where(left < top, len(left), expert), axis=0, keepdims=True)
        left_ref[...] = jnp.where(expert == place, jnp.finfo(jnp.float32).min, left)
        experts_ref[pl.ds(k, 1)] = place
        values_ref[pl.ds(k, 1)] = top

    weights_ref[...] = jax.nn.softmax(values_ref[...], axis=0).astype(weights_ref.dtype)


def top_k_route(logits, *, K, bt):
    E, T = logits.shape
    spec = pl.BlockSpec((K, bt), lambda i: (0, i))
    return pl.pallas_call(
        top_k_route_kernel,
        grid=(pl.cdiv(T, bt),),
        in_specs=[pl.BlockSpec((E, bt), lambda i: (0, i))],
        out_specs=[spec, spec],
        out_shape=[
            jax.ShapeDtypeStruct((K, T), logits.dtype),
            jax.ShapeDtypeStruct((K, T), jnp.int32),
        ],
        scratch_shapes=[pltpu.VMEM((E, bt), jnp.float32), pltpu.VMEM((K, bt), jnp.float32)],
    )(logits)
