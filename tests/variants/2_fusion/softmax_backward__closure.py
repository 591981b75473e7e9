"""Rules in a closure over bm, without nondiff_argnums, and products that are made once.

Stars: 3
"""


def softmax_backward_kernel(p_ref, dp_ref, dx_ref):
    p = p_ref[...].astype(jnp.float32)
    weighted = p * dp_ref[...]
    dx_ref[...] = (weighted - p * weighted.sum(axis=1, keepdims=True)).astype(dx_ref.dtype)


def softmax_backward(x, dp, *, bm):
    @jax.custom_vjp
    def differentiable(x):
        return softmax(x, bm)

    def forward(x):
        p = differentiable(x)
        return p, p

    differentiable.defvjp(forward, lambda p, dp: (softmax_gradient(p, dp, bm),))
    p, backward = jax.vjp(differentiable, x)
    return p, *backward(dp)
