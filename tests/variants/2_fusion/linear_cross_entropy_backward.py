"""Right kernels of linear_cross_entropy_backward in other styles: see docs/authoring.md."""

# ---- masked_factor ----

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


# ---- onehot ----

"""Makes the one-hot rows as numbers, transposes d for dx, and keeps lse first among residuals.

Stars: 3
"""


def dlogits(x_ref, w_ref, labels_ref, lse_ref, dloss_ref, i, j, *, T, V):
    bt, bv = x_ref.shape[0], w_ref.shape[0]
    logits = jnp.dot(w_ref[...], x_ref[...].T, preferred_element_type=jnp.float32)
    word = j * bv + jax.lax.broadcasted_iota(jnp.int32, logits.shape, 0)
    token = i * bt + jax.lax.broadcasted_iota(jnp.int32, logits.shape, 1)
    labels = labels_ref[...]
    onehot = (word == labels).astype(jnp.float32)
    d = (jnp.exp(logits - lse_ref[...]) - onehot) * dloss_ref[...]
    keep = (labels != IGNORE) & (word < V) & (token < T)
    return jnp.where(keep, d, 0).astype(x_ref.dtype)


def dx_kernel(x_ref, w_ref, labels_ref, lse_ref, dloss_ref, dx_ref, acc_ref, *, T, V):
    i, j = pl.program_id(0), pl.program_id(1)

    @pl.when(j == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    d = dlogits(x_ref, w_ref, labels_ref, lse_ref, dloss_ref, i, j, T=T, V=V)
    word = j * w_ref.shape[0] + jax.lax.broadcasted_iota(jnp.int32, w_ref.shape, 0)
    w = jnp.where(word < V, w_ref[...], 0)
    acc_ref[...] += jnp.dot(d.T, w, preferred_element_type=jnp.float32)

    @pl.when(j == pl.num_programs(1) - 1)
    def _():
        dx_ref[...] = acc_ref[...].astype(dx_ref.dtype)


def linear_cross_entropy_backward(x, w, labels, dloss, *, bt=512, bv=512):
    @jax.custom_vjp
    def loss_of(x, w):
        return linear_cross_entropy(x, w, labels, bt=bt, bv=bv)[0]

    def forward(x, w):
        loss, lse = linear_cross_entropy(x, w, labels, bt=bt, bv=bv)
        return loss, (lse, x, w)

    def backward(residuals, dloss):
        lse, x, w = residuals
        rows = labels, lse, dloss
        return dx_launch(x, w, *rows, bt=bt, bv=bv), dw_launch(x, w, *rows, bt=bt, bv=bv)

    loss_of.defvjp(forward, backward)
    loss, pullback = jax.vjp(loss_of, x, w)
    return (loss, *pullback(dloss))
