"""Right kernels of splash_backward_dkv in other styles: see docs/authoring.md."""

# ---- cond ----

"""One condition for the block and lax.cond for its mask; stores the sums scaled.

Stars: 3
"""


def splash_backward_dkv_kernel(
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
    dk_ref,
    dv_ref,
    dk_acc,
    dv_acc,
):
    refs = (q_ref, k_ref, v_ref, do_ref, lse_ref, delta_ref, mask_ref, dk_acc, dv_acc)
    j, step = pl.program_id(2), pl.program_id(3)
    kind = block_mask_ref[j, step]

    @pl.when(step == 0)
    def _():
        dk_acc[:] = jnp.zeros(dk_acc.shape, jnp.float32)
        dv_acc[:] = jnp.zeros(dv_acc.shape, jnp.float32)

    @pl.when(kind != 0)
    def _():
        jax.lax.cond(kind == 2, lambda: add_block(False, *refs), lambda: add_block(True, *refs))

    @pl.when(step + 1 == pl.num_programs(3))
    def _():
        dv_ref[:] = dv_acc[:].astype(dv_ref.dtype)
        dk_ref[:] = (dk_acc[:] / q_ref.shape[1] ** 0.5).astype(dk_ref.dtype)


# ---- switch ----

"""lax.switch over the kind of block; index maps with short names and *tables.

Stars: 3
"""


def splash_backward_dkv_kernel(
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
    dk_ref,
    dv_ref,
    dk_acc,
    dv_acc,
):
    refs = (q_ref, k_ref, v_ref, do_ref, lse_ref, delta_ref, mask_ref, dk_acc, dv_acc)
    scale = q_ref.shape[1] ** -0.5
    j, step = pl.program_id(2), pl.program_id(3)

    @pl.when(step == 0)
    def _():
        for acc in (dk_acc, dv_acc):
            acc[...] = jnp.zeros_like(acc)

    jax.lax.switch(
        block_mask_ref[j, step],
        [lambda: None, lambda: add_block(True, *refs), lambda: add_block(False, *refs)],
    )

    @pl.when(step == pl.num_programs(3) - 1)
    def _():
        dk_ref[...] = (dk_acc[...] * scale).astype(dk_ref.dtype)
        dv_ref[...] = dv_acc[...].astype(dv_ref.dtype)


def splash_backward_dkv(q, k, v, do, lse, delta, partial_masks, block_mask, data_next, mask_next):
    B, N, _, H = q.shape
    _, bkv, bq = partial_masks.shape
    queries = pl.BlockSpec((None, None, bq, H), lambda b, n, j, s, *t: (b, n, t[1][j, s], 0))
    keys = pl.BlockSpec((None, None, bkv, H), lambda b, n, j, s, *t: (b, n, j, 0))
    rows = pl.BlockSpec((None, None, 1, bq), lambda b, n, j, s, *t: (b, n, 0, t[1][j, s]))
    masks = pl.BlockSpec((None, bkv, bq), lambda b, n, j, s, *t: (t[2][j, s], 0, 0))
    return tuple(
        pl.pallas_call(
            splash_backward_dkv_kernel,
            grid_spec=pltpu.PrefetchScalarGridSpec(
                num_scalar_prefetch=3,
                grid=(B, N, *block_mask.shape),
                in_specs=[queries, keys, keys, queries, rows, rows, masks],
                out_specs=[keys, keys],
                scratch_shapes=[pltpu.VMEM((bkv, H), jnp.float32)] * 2,
            ),
            out_shape=[jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (k, v)],
            compiler_params=pltpu.CompilerParams(
                dimension_semantics=("parallel", "parallel", "parallel", "arbitrary")
            ),
        )(block_mask, data_next, mask_next, q, k, v, do, lse, delta, partial_masks)
    )
