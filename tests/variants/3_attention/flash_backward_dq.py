"""Right kernels of flash_backward_dq in other styles: see docs/authoring.md."""

# ---- scaled_early ----

"""Scales ds instead of the sum, and transposes the rows of lse and delta.

Stars: 3
"""


def dot(a, b, equation):
    return jnp.einsum(equation, a, b, preferred_element_type=jnp.float32)


def flash_backward_dq_kernel(q_ref, k_ref, v_ref, do_ref, lse_ref, delta_ref, dq_ref, acc_ref):
    j = pl.program_id(3)
    scale = q_ref.shape[1] ** -0.5
    lse, delta = lse_ref[...].T, delta_ref[...].T
    p = jnp.exp(dot(q_ref[...], k_ref[...], "th,sh->ts") * scale - lse)
    ds = p * (dot(do_ref[...], v_ref[...], "th,sh->ts") - delta) * scale
    part = dot(ds.astype(k_ref.dtype), k_ref[...], "ts,sh->th")

    @pl.when(j == 0)
    def _():
        acc_ref[...] = part

    @pl.when(j != 0)
    def _():
        acc_ref[...] += part

    @pl.when(j == pl.num_programs(3) - 1)
    def _():
        dq_ref[...] = acc_ref[...].astype(dq_ref.dtype)


# ---- transposed ----

"""Scores with keys along sublanes, which need lse and delta as rows, as they are.

Stars: 3
"""


def flash_backward_dq_kernel(q_ref, k_ref, v_ref, do_ref, lse_ref, delta_ref, dq_ref, acc_ref):
    scale = q_ref.shape[1] ** -0.5
    last_of_both = (((1,), (1,)), ((), ()))

    @pl.when(pl.program_id(3) == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    s_t = jax.lax.dot_general(
        k_ref[...], q_ref[...], last_of_both, preferred_element_type=jnp.float32
    )
    p_t = jnp.exp(s_t * scale - lse_ref[...])
    dp_t = jax.lax.dot_general(
        v_ref[...], do_ref[...], last_of_both, preferred_element_type=jnp.float32
    )
    ds_t = p_t * (dp_t - delta_ref[...])
    first_of_both = (((0,), (0,)), ((), ()))
    acc_ref[...] += jax.lax.dot_general(
        ds_t.astype(k_ref.dtype), k_ref[...], first_of_both, preferred_element_type=jnp.float32
    )

    @pl.when(pl.program_id(3) == pl.num_programs(3) - 1)
    def _():
        dq_ref[...] = (acc_ref[...] * scale).astype(dq_ref.dtype)
