"""Right kernels of flash_custom_vjp in other styles: see docs/authoring.md."""

# ---- closures ----

"""Rules that close over the block sizes, so that nothing has to be named as not differentiable.

Stars: 3
"""


def flash_custom_vjp(q, k, v, do, *, bq, bkv):
    @jax.custom_vjp
    def differentiable(q, k, v):
        return flash_forward(q, k, v, bq, bkv)[0]

    def forward(q, k, v):
        o, lse = flash_forward(q, k, v, bq, bkv)
        return o, (q, k, v, o, lse)

    def backward(saved, do):
        q, k, v, o, lse = saved
        delta = flash_delta(o, do, bq)
        return (
            flash_dq(q, k, v, do, lse, delta, bq, bkv),
            *flash_dkv(q, k, v, do, lse, delta, bq, bkv),
        )

    differentiable.defvjp(forward, backward)
    o, pullback = jax.vjp(differentiable, q, k, v)
    return (o, *pullback(do))


# ---- dictionary ----

"""Decorated rules, and residuals in a dictionary, with o left whole.

Stars: 3
"""

import functools


def attention_fwd(q, k, v, bq, bkv):
    o, lse = flash_forward(q, k, v, bq, bkv)
    return o, {"inputs": (q, k, v), "o": o, "lse": lse}


def attention_bwd(bq, bkv, residuals, do):
    inputs, lse = residuals["inputs"], residuals["lse"]
    delta = flash_delta(residuals["o"], do, bq)
    dk, dv = flash_dkv(*inputs, do, lse, delta, bq, bkv)
    return flash_dq(*inputs, do, lse, delta, bq, bkv), dk, dv


def flash_custom_vjp(q, k, v, do, *, bq, bkv):
    @functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4))
    def differentiable(q, k, v, bq, bkv):
        return attention(q, k, v, bq, bkv)

    differentiable.defvjp(attention_fwd, attention_bwd)
    o, backward = jax.vjp(lambda q, k, v: differentiable(q, k, v, bq, bkv), q, k, v)
    return o, *backward(do)
