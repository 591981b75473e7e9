"""Right kernels of linear_cross_entropy in other styles: see docs/authoring.md."""

# ---- logaddexp ----

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


# ---- tokens_first ----

"""Tokens by words: statistics are columns, maxima go across lanes, results are turned at the end.

Stars: 3
"""


def linear_cross_entropy_kernel(
    x_ref, w_ref, labels_ref, loss_ref, lse_ref, m_ref, l_ref, own_ref, *, V
):
    j = pl.program_id(1)

    @pl.when(j == 0)
    def _():
        m_ref[...] = jnp.full_like(m_ref, -jnp.inf)
        l_ref[...] = jnp.zeros_like(l_ref)
        own_ref[...] = jnp.zeros_like(own_ref)

    logits = jax.lax.dot_general(
        x_ref[...], w_ref[...], (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32
    )
    word = j * w_ref.shape[0] + jax.lax.broadcasted_iota(jnp.int32, logits.shape, 1)
    logits = jnp.where(word < V, logits, -jnp.inf)
    m_prev = m_ref[...]
    m_ref[...] = jnp.maximum(m_prev, jnp.max(logits, axis=1, keepdims=True))
    l_ref[...] *= jnp.exp(m_prev - m_ref[...])
    l_ref[...] += jnp.sum(jnp.exp(logits - m_ref[...]), axis=1, keepdims=True)
    label = labels_ref[...].T
    own_ref[...] += jnp.sum(jnp.where(word == label, logits, 0), axis=1, keepdims=True)

    @pl.when(j == pl.num_programs(1) - 1)
    def _():
        lse = m_ref[...] + jnp.log(l_ref[...])
        lse_ref[...] = lse.T
        loss_ref[...] = jnp.where(label == IGNORE, 0, lse - own_ref[...]).T


def linear_cross_entropy(x, w, labels, *, bt=512, bv=512):
    T, D = x.shape
    V, _ = w.shape
    row = pl.BlockSpec((1, bt), lambda i, j: (0, i))
    return pl.pallas_call(
        functools.partial(linear_cross_entropy_kernel, V=V),
        grid=(pl.cdiv(T, bt), pl.cdiv(V, bv)),
        in_specs=[
            pl.BlockSpec((bt, D), lambda i, j: (i, 0)),
            pl.BlockSpec((bv, D), lambda i, j: (j, 0)),
            row,
        ],
        out_specs=(row, row),
        out_shape=(jax.ShapeDtypeStruct((1, T), jnp.float32),) * 2,
        scratch_shapes=[pltpu.VMEM((bt, 1), jnp.float32)] * 3,
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "arbitrary"), vmem_limit_bytes=32 * 2**20
        ),
    )(x, w, labels)
