"""Right kernels of sharded_experts in other styles: see docs/authoring.md."""

# ---- first_visit ----

"""Prefetches where the chip's visits begin instead of rolling the tables.

Stars: 3
"""


def sharded_experts_kernel(
    offsets_ref, ids_ref, tiles_ref, skip_ref, x_ref, w_ref, _, o_ref, acc_ref
):
    k, last = pl.program_id(2), pl.num_programs(2) - 1
    visit = pl.program_id(1) + skip_ref[0]
    group, tile = ids_ref[visit], tiles_ref[visit]

    @pl.when(k == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)

    @pl.when(
        (k == last) & ((pl.program_id(1) == 0) | (tile != tiles_ref[jnp.maximum(visit, 1) - 1]))
    )
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    @pl.when(k == last)
    def _():
        row = jax.lax.broadcasted_iota(jnp.int32, o_ref.shape, 0) + tile * o_ref.shape[0]
        mine = (offsets_ref[group] <= row) & (row < offsets_ref[group + 1])
        o_ref[...] = jnp.where(mine, acc_ref[...].astype(o_ref.dtype), o_ref[...])


def sharded_experts(x, w, group_sizes, group_offset, *, tm, tk, tn):
    (M, K), (L, _, N) = x.shape, w.shape
    tables = group_metadata(group_sizes, M=M, tm=tm)
    group_offsets, group_ids, m_tile_ids, all_visits = tables
    used = jnp.arange(len(group_ids)) < all_visits
    skip = jnp.sum(jnp.where(used, group_ids < group_offset, False), keepdims=True)
    here = used & (group_ids >= group_offset) & (group_ids < group_offset + L)
    first = jnp.concatenate([skip, group_offset])

    return pl.pallas_call(
        sharded_experts_kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=4,
            grid=(N // tn, here.sum(), K // tk),
            in_specs=[
                pl.BlockSpec((tm, tk), lambda j, v, k, o, g, t, f: (t[v + f[0]], k)),
                pl.BlockSpec(
                    (None, tk, tn), lambda j, v, k, o, g, t, f: (g[v + f[0]] - f[1], k, j)
                ),
                pl.BlockSpec(memory_space=pl.ANY),
            ],
            out_specs=pl.BlockSpec((tm, tn), lambda j, v, k, o, g, t, f: (t[v + f[0]], j)),
            scratch_shapes=[pltpu.VMEM((tm, tn), jnp.float32)],
        ),
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
        input_output_aliases={6: 0},
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "arbitrary", "arbitrary")
        ),
    )(group_offsets, group_ids, m_tile_ids, first, x, w, jnp.zeros((M, N), x.dtype))


# ---- rows_of_chip ----

"""Compares rows with the chip's range: what lies outside of it is 0 in every visit.

Stars: 3
"""


def sharded_experts_kernel(
    offsets_ref, ids_ref, tiles_ref, chip_ref, x_ref, w_ref, _, o_ref, acc_ref
):
    visit, k, last = pl.program_id(1), pl.program_id(2), pl.num_programs(2) - 1

    @pl.when(k == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)

    @pl.when(k == last)
    def _():
        group = ids_ref[visit]
        row = tiles_ref[visit] * o_ref.shape[0]
        row += jax.lax.broadcasted_iota(jnp.int32, o_ref.shape, 0)
        mine = (row >= offsets_ref[group]) & (row < offsets_ref[group + 1])
        here = (row >= chip_ref[1]) & (row < chip_ref[2])
        kept = jnp.where(here, o_ref[...], jnp.zeros_like(o_ref))
        o_ref[...] = jnp.where(mine, acc_ref[...].astype(o_ref.dtype), kept)


def sharded_experts(x, w, group_sizes, group_offset, *, tm, tk, tn):
    (M, K), (L, _, N) = x.shape, w.shape
    offsets, ids, tiles, visits = group_metadata(group_sizes, M=M, tm=tm)
    here = (ids >= group_offset) & (ids < group_offset + L) & (jnp.arange(len(ids)) < visits)
    order = jnp.argsort(~here, stable=True)
    ids, tiles = ids[order], tiles[order]
    first = group_offset[0]
    chip = jnp.stack([first, offsets[first], offsets[first + L]])
    return pl.pallas_call(
        sharded_experts_kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=4,
            grid=(N // tn, jnp.sum(here), K // tk),
            in_specs=[
                pl.BlockSpec((tm, tk), lambda j, v, k, o, g, t, c: (t[v], k)),
                pl.BlockSpec((None, tk, tn), lambda j, v, k, o, g, t, c: (g[v] - c[0], k, j)),
                pl.BlockSpec(memory_space=pl.ANY),
            ],
            out_specs=pl.BlockSpec((tm, tn), lambda j, v, k, o, g, t, c: (t[v], j)),
            scratch_shapes=[pltpu.VMEM((tm, tn), jnp.float32)],
        ),
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
        input_output_aliases={6: 0},
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "arbitrary", "arbitrary")
        ),
    )(offsets, ids, tiles, chip, x, w, jnp.zeros_like(x, shape=(M, N)))
