"""Right kernels of causal_flash in other styles: see docs/authoring.md."""

# ---- conditions ----

"""lax.cond inside one pl.when; the mask is added to the scores.

Stars: 3
"""


def causal_flash_kernel(q_ref, k_ref, v_ref, o_ref, m_ref, l_ref, acc_ref):
    i, j = pl.program_id(2), pl.program_id(3)
    bq, bkv = q_ref.shape[0], k_ref.shape[0]

    @pl.when(j == 0)
    def _():
        m_ref[...] = jnp.full_like(m_ref, MASK_VALUE)
        l_ref[...] = jnp.zeros_like(l_ref)
        acc_ref[...] = jnp.zeros_like(acc_ref)

    def full():
        attend(scores(q_ref, k_ref), v_ref, m_ref, l_ref, acc_ref)

    def partial():
        shape = (bq, bkv)
        query = i * bq + jax.lax.broadcasted_iota(jnp.int32, shape, 0)
        key = j * bkv + jax.lax.broadcasted_iota(jnp.int32, shape, 1)
        bias = jnp.where(key > query, MASK_VALUE, 0.0)
        attend(scores(q_ref, k_ref) + bias, v_ref, m_ref, l_ref, acc_ref)

    @pl.when(j * bkv < (i + 1) * bq)
    def _():
        jax.lax.cond((j + 1) * bkv - 1 <= i * bq, full, partial)

    @pl.when(j == pl.num_programs(3) - 1)
    def _():
        o_ref[...] = (acc_ref[...] / widened(l_ref[...], acc_ref.shape[1])).astype(o_ref.dtype)


# ---- minimum ----

"""Stops at the last block that is needed: an index map with minimum, and offsets for the mask.

Stars: 3
"""


def causal_flash_kernel(q_ref, k_ref, v_ref, o_ref, m_ref, l_ref, acc_ref):
    i, j = pl.program_id(2), pl.program_id(3)
    bq, bkv = q_ref.shape[0], k_ref.shape[0]

    @pl.when(j == 0)
    def _():
        m_ref[...] = jnp.full_like(m_ref, MASK_VALUE)
        l_ref[...] = jnp.zeros_like(l_ref)
        acc_ref[...] = jnp.zeros_like(acc_ref)

    ahead = j * bkv - i * bq  # by how much the first key is later than the first query

    @pl.when(ahead + bkv <= 1)
    def _():
        attend(scores(q_ref, k_ref), v_ref, m_ref, l_ref, acc_ref)

    @pl.when((ahead + bkv > 1) & (ahead < bq))
    def _():
        s = scores(q_ref, k_ref)
        row = jax.lax.broadcasted_iota(jnp.int32, s.shape, 0)
        column = jax.lax.broadcasted_iota(jnp.int32, s.shape, 1)
        attend(jnp.where(row - column >= ahead, s, MASK_VALUE), v_ref, m_ref, l_ref, acc_ref)

    @pl.when(j == pl.num_programs(3) - 1)
    def _():
        o_ref[...] = (acc_ref[...] / widened(l_ref[...], acc_ref.shape[1])).astype(o_ref.dtype)


def causal_flash(q, k, v, *, bq, bkv):
    B, N, T, H = q.shape

    def kv_index(b, n, i, j):
        return b, n, jnp.minimum(j, ((i + 1) * bq - 1) // bkv), 0

    q_spec = pl.BlockSpec((None, None, bq, H), lambda b, n, i, j: (b, n, i, 0))
    kv_spec = pl.BlockSpec((None, None, bkv, H), kv_index)
    return pl.pallas_call(
        causal_flash_kernel,
        grid=(B, N, T // bq, T // bkv),
        in_specs=[q_spec, kv_spec, kv_spec],
        out_specs=q_spec,
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        scratch_shapes=[
            pltpu.VMEM((bq, LANES), jnp.float32),
            pltpu.VMEM((bq, LANES), jnp.float32),
            pltpu.VMEM((bq, H), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "parallel", "arbitrary")
        ),
    )(q, k, v)
