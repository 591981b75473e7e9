"""Right kernels of softmax_backward in other styles: see docs/authoring.md."""

# ---- closure ----

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


# ---- recomputed ----

"""Keeps x, and computes p again in the backward kernel: as many bytes, and more work.

Stars: 3
"""


def softmax_backward_kernel(p_ref, dp_ref, dx_ref):
    x = p_ref[...].astype(jnp.float32)
    e = jnp.exp(x - jnp.max(x, axis=1, keepdims=True))
    p = e / jnp.sum(e, axis=1, keepdims=True)
    dp = dp_ref[...].astype(jnp.float32)
    dx_ref[...] = (p * (dp - jnp.sum(p * dp, axis=1, keepdims=True))).astype(dx_ref.dtype)


def softmax_fwd(x, bm):
    return softmax(x, bm), x


def softmax_bwd(bm, x, dp):
    return (softmax_gradient(x, dp, bm),)
