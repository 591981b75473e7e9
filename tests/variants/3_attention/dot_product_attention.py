"""Right kernels of dot_product_attention in other styles: see docs/authoring.md."""

# ---- exp2 ----

"""Powers of two, with log2(e) folded into the scale, and a reciprocal.

Stars: 3
"""

LOG2_E = 1.4426950408889634


def dot_product_attention_kernel(q_ref, k_ref, v_ref, o_ref):
    scale = q_ref.shape[1] ** -0.5
    s = jnp.dot(q_ref[...], k_ref[...].T, preferred_element_type=jnp.float32) * (scale * LOG2_E)
    p = jnp.exp2(s - jnp.max(s, axis=1)[:, None])
    total = jnp.sum(p, axis=1)[:, None]
    o = jnp.dot(p.astype(v_ref.dtype), v_ref[...], preferred_element_type=jnp.float32)
    o_ref[...] = (o * (1 / total)).astype(o_ref.dtype)


# ---- jax_nn ----

"""jax.nn.softmax in the kernel, and weights that stay float32 for the second product.

Stars: 3
"""


def dot_product_attention_kernel(q_ref, k_ref, v_ref, o_ref):
    scale = q_ref.shape[1] ** -0.5
    last_of_both = (((1,), (1,)), ((), ()))
    s = jax.lax.dot_general(q_ref[:], k_ref[:], last_of_both, preferred_element_type=jnp.float32)
    p = jax.nn.softmax(s * scale, axis=-1)
    o_ref[:] = jnp.dot(p, v_ref[:].astype(jnp.float32)).astype(o_ref.dtype)


# ---- scaled_queries ----

"""Scales q in float32 before the product, and divides the weights before they are rounded.

Stars: 3
"""


def dot_product_attention_kernel(q_ref, k_ref, v_ref, o_ref):
    scale = q_ref.shape[1] ** -0.5
    q = q_ref[...].astype(jnp.float32) * scale
    k = k_ref[...].astype(jnp.float32)
    s = jnp.einsum("th,sh->ts", q, k, preferred_element_type=jnp.float32)
    p = jnp.exp(s - s.max(axis=-1, keepdims=True))
    p = p / p.sum(axis=-1, keepdims=True)
    o = jnp.einsum(
        "ts,sh->th", p.astype(v_ref.dtype), v_ref[...], preferred_element_type=jnp.float32
    )
    o_ref[...] = o.astype(o_ref.dtype)
