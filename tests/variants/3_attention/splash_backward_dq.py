"""Right kernels of splash_backward_dq in other styles: see docs/authoring.md."""

# ---- columns_once ----

"""lse and delta become columns once for each row of blocks, in scratch; the mask after exp.

Stars: 3
"""


def splash_backward_dq_kernel(
    block_mask_ref,
    data_next_ref,
    mask_next_ref,
    q_ref,
    k_ref,
    v_ref,
    do_ref,
    lse_ref,
    delta_ref,
    mask_ref,
    dq_ref,
    acc_ref,
    lse_column,
    delta_column,
):
    i, step = pl.program_id(2), pl.program_id(3)
    kind = block_mask_ref[i, step]
    scale = q_ref.shape[1] ** -0.5
    last_of_both = (((1,), (1,)), ((), ()))
    lanes = lse_column.shape[1]
    times = k_ref.shape[0] // lanes

    @pl.when(step == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)
        lse_column[...] = jnp.broadcast_to(lse_ref[0, :][:, None], lse_column.shape)
        delta_column[...] = jnp.broadcast_to(delta_ref[0, :][:, None], delta_column.shape)

    @pl.when(kind > 0)
    def _():
        s = dot(q_ref[...], k_ref[...], last_of_both) * scale
        p = jnp.exp(s - jnp.tile(lse_column[...], (1, times)))
        p = jnp.where((mask_ref[...].astype(jnp.int32) != 0) | (kind == 2), p, 0.0)
        dp = dot(do_ref[...], v_ref[...], last_of_both)
        ds = p * (dp - jnp.tile(delta_column[...], (1, times)))
        acc_ref[...] += dot(ds.astype(k_ref.dtype), k_ref[...])

    @pl.when(step == pl.num_programs(3) - 1)
    def _():
        dq_ref[...] = (acc_ref[...] * scale).astype(dq_ref.dtype)


def splash_backward_dq(q, k, v, do, lse, delta, partial_masks, block_mask, data_next, mask_next):
    B, N, _, H = q.shape
    _, bq, bkv = partial_masks.shape
    group = N // k.shape[1]
    queries = pl.BlockSpec((None, None, bq, H), lambda b, n, i, s, *t: (b, n, i, 0))
    keys = pl.BlockSpec((None, None, bkv, H), lambda b, n, i, s, *t: (b, n // group, t[1][i, s], 0))
    rows = pl.BlockSpec((None, None, 1, bq), lambda b, n, i, s, *t: (b, n, 0, i))
    masks = pl.BlockSpec((None, bq, bkv), lambda b, n, i, s, *t: (t[2][i, s], 0, 0))
    return pl.pallas_call(
        splash_backward_dq_kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=3,
            grid=(B, N, *block_mask.shape),
            in_specs=[queries, keys, keys, queries, rows, rows, masks],
            out_specs=queries,
            scratch_shapes=[pltpu.VMEM((bq, width), jnp.float32) for width in (H, 128, 128)],
        ),
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "parallel", "arbitrary")
        ),
    )(block_mask, data_next, mask_next, q, k, v, do, lse, delta, partial_masks)


# ---- masked_ds ----

"""Masks ds instead of the scores; lax.cond chooses; the scale is part of what is summed.

Stars: 3
"""


def splash_backward_dq_kernel(
    block_mask_ref,
    data_next_ref,
    mask_next_ref,
    q_ref,
    k_ref,
    v_ref,
    do_ref,
    lse_ref,
    delta_ref,
    mask_ref,
    dq_ref,
    acc_ref,
):
    i, step = pl.program_id(2), pl.program_id(3)
    kind = block_mask_ref[i, step]
    scale = q_ref.shape[1] ** -0.5

    def of_block():
        s = jax.lax.dot_general(
            q_ref[...], k_ref[...], (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32
        )
        dp = dot(do_ref[...], v_ref[...].T)
        return jnp.exp(scale * s - lse_ref[...].T) * scale * (dp - delta_ref[...].T)

    def add(ds):
        acc_ref[...] += dot(ds.astype(k_ref.dtype), k_ref[...])

    @pl.when(step == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    @pl.when(kind != 0)
    def _():
        jax.lax.cond(
            kind == 1,
            lambda: add(jnp.where(mask_ref[...] != 0, of_block(), 0)),
            lambda: add(of_block()),
        )

    @pl.when(step == pl.num_programs(3) - 1)
    def _():
        dq_ref[...] = acc_ref[...].astype(dq_ref.dtype)


# ---- transposed ----

"""Scores with keys first, as in kata 16: lse and delta as rows, masks turned in the kernel.

Stars: 3
"""


def splash_backward_dq_kernel(
    block_mask_ref,
    data_next_ref,
    mask_next_ref,
    q_ref,
    k_ref,
    v_ref,
    do_ref,
    lse_ref,
    delta_ref,
    mask_ref,
    dq_ref,
    acc_ref,
):
    i, step = pl.program_id(2), pl.program_id(3)
    kind = block_mask_ref[i, step]
    scale = q_ref.shape[1] ** -0.5
    last_of_both = (((1,), (1,)), ((), ()))
    first_of_both = (((0,), (0,)), ((), ()))

    def add_block(masked):
        s = dot(k_ref[...], q_ref[...], last_of_both) * scale
        if masked:
            s = jnp.where(mask_ref[...].astype(jnp.float32).T != 0, s, MASK_VALUE)
        p = jnp.exp(s - lse_ref[...])
        ds = p * (dot(v_ref[...], do_ref[...], last_of_both) - delta_ref[...])
        acc_ref[...] += dot(ds.astype(k_ref.dtype), k_ref[...], first_of_both)

    @pl.when(step == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    for which in (1, 2):
        pl.when(kind == which)(lambda which=which: add_block(which == 1))

    @pl.when(step == pl.num_programs(3) - 1)
    def _():
        dq_ref[...] = (acc_ref[...] * scale).astype(dq_ref.dtype)
