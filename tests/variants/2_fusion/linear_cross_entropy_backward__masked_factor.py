"""Masks the factor of each token, and subtracts it at the label; the first product is stored.

Stars: 3
"""


def dlogits(x_ref, w_ref, labels_ref, lse_ref, dloss_ref, i, j, *, T, V):
    bt, bv = x_ref.shape[0], w_ref.shape[0]
    logits = jax.lax.dot_general(
        w_ref[...], x_ref[...], (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32
    )
    word = jax.lax.broadcasted_iota(jnp.int32, (bv, bt), 0)
    token = jax.lax.broadcasted_iota(jnp.int32, (1, bt), 1)
    here = (token < T - i * bt) & (labels_ref[...] != IGNORE)
    factor = jnp.where(here, dloss_ref[...], 0)
    p = jnp.where((word < V - j * bv) & here, jnp.exp(logits - lse_ref[...]), 0)
    d = p * factor - jnp.where(word == labels_ref[...] - j * bv, factor, 0)
    return d.astype(x_ref.dtype)


def dw_kernel(x_ref, w_ref, labels_ref, lse_ref, dloss_ref, dw_ref, acc_ref, *, T, V):
    j, i = pl.program_id(0), pl.program_id(1)
    d = dlogits(x_ref, w_ref, labels_ref, lse_ref, dloss_ref, i, j, T=T, V=V)
    row = jax.lax.broadcasted_iota(jnp.int32, (x_ref.shape[0], 1), 0)
    x = jnp.where(row < T - i * x_ref.shape[0], x_ref[...], jnp.zeros_like(x_ref))
    total = jnp.dot(d, x, preferred_element_type=jnp.float32)

    @pl.when(i == 0)
    def _():
        acc_ref[...] = total

    @pl.when(i > 0)
    def _():
        acc_ref[...] += total

    @pl.when(i == pl.num_programs(1) - 1)
    def _():
        dw_ref[...] = acc_ref[...].astype(dw_ref.dtype)
