"""Right kernels of ragged_sequence in other styles: see docs/authoring.md."""

# ---- cond ----

"""lax.cond between the last block and the others; counts keys from the start of the sequence.

Stars: 3
"""


def ragged_sequence_kernel(q_ref, k_ref, v_ref, o_ref, m_ref, l_ref, acc_ref, *, S):
    bkv, H = k_ref.shape
    j, last = pl.program_id(3), pl.num_programs(3) - 1

    @pl.when(j == 0)
    def _():
        clear(m_ref, l_ref, acc_ref)

    def whole():
        attend(scores(q_ref, k_ref), v_ref[...], m_ref, l_ref, acc_ref)

    def cut():
        s = scores(q_ref, k_ref)
        key = j * bkv + jax.lax.broadcasted_iota(jnp.int32, (1, bkv), 1)
        row = j * bkv + jax.lax.broadcasted_iota(jnp.int32, (bkv, H), 0)
        v = jnp.where(row >= S, jnp.zeros_like(v_ref[...]), v_ref[...])
        attend(jnp.where(key >= S, MASK_VALUE, s), v, m_ref, l_ref, acc_ref)

    jax.lax.cond(j == last, cut, whole)

    @pl.when(j == last)
    def _():
        o_ref[...] = (acc_ref[...] / widened(l_ref[...], H)).astype(o_ref.dtype)


def ragged_sequence(q, k, v, *, bq, bkv):
    B, N, T, H = q.shape
    _, K, S, _ = k.shape
    q_spec = pl.BlockSpec((None, None, bq, H), lambda b, n, i, j: (b, n, i, 0))
    kv_spec = pl.BlockSpec((None, None, bkv, H), lambda b, n, i, j: (b, n * K // N, j, 0))
    return pl.pallas_call(
        lambda *refs: ragged_sequence_kernel(*refs, S=S),
        grid=(B, N, -(-T // bq), -(-S // bkv)),
        in_specs=[q_spec, kv_spec, kv_spec],
        out_specs=q_spec,
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        scratch_shapes=[pltpu.VMEM((bq, width), jnp.float32) for width in (LANES, LANES, H)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "parallel", "arbitrary")
        ),
    )(q, k, v)


# ---- static_rest ----

"""Knows by Python whether anything is left over, and masks with numbers known at trace time.

Stars: 3
"""


def ragged_sequence_kernel(q_ref, k_ref, v_ref, o_ref, m_ref, l_ref, acc_ref, *, S):
    bkv, H = k_ref.shape
    j, last = pl.program_id(3), pl.num_programs(3) - 1
    rest = S % bkv

    @pl.when(j == 0)
    def _():
        clear(m_ref, l_ref, acc_ref)

    def step(masked):
        s, v = scores(q_ref, k_ref), v_ref[...]
        if masked:
            s = jnp.where(jax.lax.broadcasted_iota(jnp.int32, s.shape, 1) < rest, s, MASK_VALUE)
            v = jnp.where(jax.lax.broadcasted_iota(jnp.int32, v.shape, 0) < rest, v, 0)
        attend(s, v, m_ref, l_ref, acc_ref)

    if rest:
        pl.when(j != last)(lambda: step(masked=False))
        pl.when(j == last)(lambda: step(masked=True))
    else:
        step(masked=False)

    @pl.when(j == last)
    def _():
        o_ref[...] = (acc_ref[...] / widened(l_ref[...], H)).astype(o_ref.dtype)
