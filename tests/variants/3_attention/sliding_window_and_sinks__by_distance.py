"""A window of distances; the steps left over by lax.select; one branch for all blocks with work.

Stars: 3
"""


def visited(i, step, *, bq, bkv, window, sinks):
    first, last = touched(i, bq=bq, bkv=bkv, window=window)
    held = -(-sinks // bkv)
    j = jnp.where(step < held, step, step + jnp.maximum(first - held, 0))
    works = j <= last
    return jax.lax.select(works, j, last), works


def sliding_window_and_sinks_kernel(
    q_ref, k_ref, v_ref, o_ref, m_ref, l_ref, acc_ref, *, window, sinks
):
    (bq, _), (bkv, _) = q_ref.shape, k_ref.shape
    i, step = pl.program_id(2), pl.program_id(3)
    j, works = visited(i, step, bq=bq, bkv=bkv, window=window, sinks=sinks)
    pl.when(step == 0)(lambda: clear(m_ref, l_ref, acc_ref))

    @pl.when(works)
    def _():
        row = jax.lax.broadcasted_iota(jnp.int32, (bq, bkv), 0)
        column = jax.lax.broadcasted_iota(jnp.int32, (bq, bkv), 1)
        behind = row - column + (i * bq - j * bkv)
        seen = (behind >= 0) & ((behind < window) | (column < sinks - j * bkv))
        s = jnp.where(seen, scores(q_ref, k_ref), MASK_VALUE)
        attend(s, v_ref, m_ref, l_ref, acc_ref)

    pl.when(step + 1 == pl.num_programs(3))(lambda: store(o_ref, m_ref, l_ref, acc_ref))
