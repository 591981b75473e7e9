"""Right kernels of swiglu_backward in other styles: see docs/authoring.md."""

# ---- tanh ----

"""A sigmoid by tanh, both products in one expression, the sum begun by its first term.

Stars: 3
"""


def swiglu_backward_kernel(z_ref, u_ref, gate_ref, up_ref, do_ref, dz_ref, du_ref, dx_ref, dx_acc):
    j = pl.program_id(1)
    z, do = z_ref[...].astype(jnp.float32), do_ref[...].astype(jnp.float32)
    s = 0.5 * jnp.tanh(0.5 * z) + 0.5
    silu = z * s
    dz_ref[...] = (do * u_ref[...].astype(jnp.float32) * (s + silu * (1 - s))).astype(dz_ref.dtype)
    du_ref[...] = (do * silu).astype(du_ref.dtype)
    last_dims = (((1,), (1,)), ((), ()))

    def product(a_ref, b_ref):
        return jax.lax.dot_general(
            a_ref[...], b_ref[...], last_dims, preferred_element_type=jnp.float32
        )

    dx = product(dz_ref, gate_ref) + product(du_ref, up_ref)

    @pl.when(j == 0)
    def _():
        dx_acc[...] = dx

    @pl.when(j > 0)
    def _():
        dx_acc[...] += dx

    @pl.when(j == pl.num_programs(1) - 1)
    def _():
        dx_ref[...] = dx_acc[...].astype(dx_ref.dtype)


# ---- transposed_weights ----

"""Transposes the blocks of the weights itself, and stores dx in every step.

Stars: 3
"""


def swiglu_backward_kernel(z_ref, u_ref, gate_ref, up_ref, do_ref, dz_ref, du_ref, dx_ref, dx_acc):
    @pl.when(pl.program_id(1) == 0)
    def _():
        dx_acc[...] = jnp.zeros(dx_acc.shape, dx_acc.dtype)

    z, u, do = (ref[...].astype(jnp.float32) for ref in (z_ref, u_ref, do_ref))
    s = 1 / (1 + jnp.exp(-z))
    dz = (do * u * (s + z * s * (1 - s))).astype(z_ref.dtype)
    du = (do * (z * s)).astype(z_ref.dtype)
    dx_acc[...] += jnp.dot(dz, gate_ref[...].T, preferred_element_type=jnp.float32)
    dx_acc[...] += jnp.dot(du, up_ref[...].T, preferred_element_type=jnp.float32)
    dz_ref[...] = dz
    du_ref[...] = du
    dx_ref[...] = dx_acc[...].astype(dx_ref.dtype)
