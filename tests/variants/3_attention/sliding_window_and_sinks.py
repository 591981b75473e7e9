"""Right kernels of sliding_window_and_sinks in other styles: see docs/authoring.md."""

# ---- by_distance ----

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


# ---- tables ----

"""Lists of blocks made in Python, prefetched as tables; the mask from positions.

Stars: 3
"""


def sliding_window_and_sinks_kernel(
    table_ref, q_ref, k_ref, v_ref, o_ref, m_ref, l_ref, acc_ref, *, window, sinks
):
    bq, bkv = q_ref.shape[0], k_ref.shape[0]
    i, step = pl.program_id(2), pl.program_id(3)
    kind, j = table_ref[0, i, step], table_ref[1, i, step]

    @pl.when(step == 0)
    def _():
        clear(m_ref, l_ref, acc_ref)

    @pl.when(kind == 2)
    def _():
        attend(scores(q_ref, k_ref), v_ref, m_ref, l_ref, acc_ref)

    @pl.when(kind == 1)
    def _():
        q = i * bq + jax.lax.broadcasted_iota(jnp.int32, (bq, bkv), 0)
        k = j * bkv + jax.lax.broadcasted_iota(jnp.int32, (bq, bkv), 1)
        sees = (k <= q) & ((k > q - window) | (k < sinks))
        s = jnp.where(sees, scores(q_ref, k_ref), MASK_VALUE)
        attend(s, v_ref, m_ref, l_ref, acc_ref)

    @pl.when(step == pl.num_programs(3) - 1)
    def _():
        store(o_ref, m_ref, l_ref, acc_ref)


def sliding_window_and_sinks(q, k, v, *, window, sinks, bq, bkv):
    B, N, T, H = q.shape
    group = N // k.shape[1]
    rows = []
    for start in range(0, T, bq):
        row = []
        for j in range((start + bq - 1) // bkv + 1):
            low, high = j * bkv, j * bkv + bkv - 1
            if low < sinks or high > start - window:
                near = low > start + bq - 1 - window or high < sinks
                row.append((2 if high <= start and near else 1, j))
        rows.append(row)
    steps = max(map(len, rows))
    padded = [row + [(0, row[-1][1])] * (steps - len(row)) for row in rows]
    table = jnp.array(padded, jnp.int32).transpose(2, 0, 1)
    q_spec = pl.BlockSpec((None, None, bq, H), lambda b, n, i, step, table: (b, n, i, 0))
    kv_spec = pl.BlockSpec(
        (None, None, bkv, H), lambda b, n, i, step, table: (b, n // group, table[1, i, step], 0)
    )
    return pl.pallas_call(
        functools.partial(sliding_window_and_sinks_kernel, window=window, sinks=sinks),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(B, N, T // bq, steps),
            in_specs=[q_spec, kv_spec, kv_spec],
            out_specs=q_spec,
            scratch_shapes=[pltpu.VMEM((bq, width), jnp.float32) for width in (LANES, LANES, H)],
        ),
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "parallel", "arbitrary")
        ),
    )(table, q, k, v)
