"""jax.nn.softmax in the kernel, and weights that stay float32 for the second product.

Stars: 3
"""


def dot_product_attention_kernel(q_ref, k_ref, v_ref, o_ref):
    scale = q_ref.shape[1] ** -0.5
    last_of_both = (((1,), (1,)), ((), ()))
    s = jax.lax.dot_general(q_ref[:], k_ref[:], last_of_both, preferred_element_type=jnp.float32)
    p = jax.nn.softmax(s * scale, axis=-1)
    o_ref[:] = jnp.dot(p, v_ref[:].astype(jnp.float32)).astype(o_ref.dtype)
