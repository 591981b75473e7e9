"""Right kernels of bf16_accumulate in other styles: see docs/authoring.md."""

# ---- mixed_product ----

"""Only one factor is cast: the other follows. Sums take a dtype, and the norm is kept in o_ref.

Stars: 3
"""


def bf16_accumulate_kernel(x_ref, w_ref, o_ref, total_ref, norm_ref):
    k = pl.program_id(1)

    @pl.when(k == 0)
    def _():
        total_ref[...] = jnp.zeros_like(total_ref)
        o_ref[...] = jnp.zeros_like(o_ref)

    product = x_ref[...] * w_ref[...].astype(jnp.float32)
    total_ref[...] += jnp.sum(product, axis=0, keepdims=True)
    o_ref[...] += jnp.sum(w_ref[...], axis=0, keepdims=True, dtype=jnp.float32)

    @pl.when(k == pl.num_programs(1) - 1)
    def _():
        o_ref[...] = total_ref[...] / o_ref[...]


# ---- where ----

"""No branches: the first step chooses with where, and the quotient is stored in every step.

Stars: 3
"""


def bf16_accumulate_kernel(x_ref, w_ref, o_ref, total_ref, norm_ref):
    first = pl.program_id(1) == 0
    w = w_ref[...].astype(jnp.float32)
    total = jnp.where(first, 0, total_ref[...]) + jnp.sum(w * x_ref[...], axis=0)[None]
    norm = jnp.where(first, 0, norm_ref[...]) + jnp.sum(w, axis=0)[None]
    total_ref[...], norm_ref[...] = total, norm
    o_ref[...] = total / norm


# ---- select_the_first ----

"""Chooses by jnp.where whether a step begins a sum or adds to it.

Stars: 3
"""


def bf16_accumulate_kernel(x_ref, w_ref, o_ref, total_ref, norm_ref):
    k = pl.program_id(1)
    x, w = (ref[...].astype(jnp.float32) for ref in (x_ref, w_ref))
    parts = (x * w).sum(axis=0, keepdims=True), w.sum(axis=0, keepdims=True)
    for ref, part in zip((total_ref, norm_ref), parts, strict=True):
        ref[...] = jnp.where(k == 0, part, ref[...] + part)

    @pl.when(k == pl.num_programs(1) - 1)
    def _():
        o_ref[...] = total_ref[...] / norm_ref[...]
