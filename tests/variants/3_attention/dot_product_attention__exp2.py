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
