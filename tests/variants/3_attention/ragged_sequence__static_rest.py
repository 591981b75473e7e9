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
