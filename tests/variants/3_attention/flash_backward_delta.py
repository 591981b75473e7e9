"""Right kernels of flash_backward_delta in other styles: see docs/authoring.md."""

# ---- parts ----

"""Takes 128 rows at a time, and transposes both factors before the product.

Stars: 3
"""


def flash_backward_delta_kernel(o_ref, do_ref, delta_ref):
    for start in range(0, o_ref.shape[0], 128):
        at = pl.ds(start, 128)
        o = o_ref[at, :].astype(jnp.float32)
        do = do_ref[at, :].astype(jnp.float32)
        delta_ref[:, at] = jnp.sum((o * do).T, axis=0)[None]


# ---- row_of_sums ----

"""Sums along the lanes and lets the compiler lay the column out as a row.

Stars: 2 or 3: with libtpu 0.0.42, laying sums over lanes out as a row takes twice as long as a
transpose before the sum; with 0.0.50 it does not.
"""


def flash_backward_delta_kernel(o_ref, do_ref, delta_ref):
    product = o_ref[...].astype(jnp.float32) * do_ref[...].astype(jnp.float32)
    delta_ref[...] = jnp.sum(product, axis=1)[None, :]


# ---- ones_on_the_mxu ----

"""The sums over a row are a product with ones on the matrix unit, which gives a row at once.

Stars: 3
"""


def flash_backward_delta_kernel(o_ref, do_ref, delta_ref):
    product = o_ref[...].astype(jnp.float32) * do_ref[...].astype(jnp.float32)
    delta_ref[...] = jnp.einsum(
        "zh,th->zt",
        jnp.ones((1, product.shape[1]), jnp.float32),
        product,
        precision=jax.lax.Precision.HIGHEST,
        preferred_element_type=jnp.float32,
    )
