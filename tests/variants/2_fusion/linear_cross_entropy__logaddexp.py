"""Keeps one statistic: each block's own log-sum-exp is merged with what was seen so far.

Stars: 3
"""


def linear_cross_entropy_kernel(
    x_ref, w_ref, labels_ref, loss_ref, lse_ref, seen_ref, unused_ref, label_ref, *, V
):
    j, bv = pl.program_id(1), w_ref.shape[0]

    @pl.when(j == 0)
    def _():
        seen_ref[...] = jnp.full_like(seen_ref, -1e30)
        label_ref[...] = jnp.full_like(label_ref, -jnp.inf)

    logits = jax.lax.dot_general(
        w_ref[...], x_ref[...], (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32
    )
    word = jax.lax.broadcasted_iota(jnp.int32, logits.shape, 0)
    logits = jnp.where(word < V - j * bv, logits, -1e30)
    m = jnp.max(logits, axis=0, keepdims=True)
    block = m + jnp.log(jnp.sum(jnp.exp(logits - m), axis=0, keepdims=True))
    seen = seen_ref[...]
    larger = jnp.maximum(seen, block)
    seen_ref[...] = larger + jnp.log(jnp.exp(seen - larger) + jnp.exp(block - larger))
    own = jnp.where(word == labels_ref[...] - j * bv, logits, -jnp.inf)
    label_ref[...] = jnp.maximum(label_ref[...], jnp.max(own, axis=0, keepdims=True))

    @pl.when(j == pl.num_programs(1) - 1)
    def _():
        lse_ref[...] = seen_ref[...]
        counts = labels_ref[...] != IGNORE
        loss_ref[...] = jnp.where(counts, seen_ref[...] - label_ref[...], 0)
