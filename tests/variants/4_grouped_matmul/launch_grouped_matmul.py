"""Right kernels of launch_grouped_matmul in other styles: see docs/authoring.md."""

# ---- no_last_product ----

"""A kernel that adds every product before it stores, in a launch in jax.jit.

Stars: 3
"""

import functools


def launch_grouped_matmul_kernel(
    group_offsets_ref, group_ids_ref, m_tile_ids_ref, x_ref, w_ref, o_ref, acc_ref, *, tm
):
    visit, k = pl.program_id(1), pl.program_id(2)
    acc = jnp.where(k == 0, 0, acc_ref[...])
    acc += jnp.dot(x_ref[...], w_ref[0], preferred_element_type=jnp.float32)
    acc_ref[...] = acc

    @pl.when(k == pl.num_programs(2) - 1)
    def _():
        group = group_ids_ref[visit]
        row = m_tile_ids_ref[visit] * tm + jax.lax.broadcasted_iota(jnp.int32, acc.shape, 0)
        mine = (row >= group_offsets_ref[group]) & (row < group_offsets_ref[group + 1])
        o_ref[...] = jnp.where(mine, acc.astype(o_ref.dtype), o_ref[...])


def launch_grouped_matmul(x, w, group_sizes, *, tm, tk, tn):
    (M, K), (_, _, N) = x.shape, w.shape
    group_offsets, group_ids, m_tile_ids, num_visits = group_metadata(group_sizes, M=M, tm=tm)
    launch = pl.pallas_call(
        functools.partial(launch_grouped_matmul_kernel, tm=tm),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=3,
            grid=(N // tn, num_visits, K // tk),
            in_specs=[
                pl.BlockSpec((tm, tk), lambda j, v, k, offsets, ids, tiles: (tiles[v], k)),
                pl.BlockSpec((1, tk, tn), lambda j, v, k, offsets, ids, tiles: (ids[v], k, j)),
            ],
            out_specs=pl.BlockSpec((tm, tn), lambda j, v, k, offsets, ids, tiles: (tiles[v], j)),
            scratch_shapes=[pltpu.VMEM((tm, tn), jnp.float32)],
        ),
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "arbitrary", "arbitrary")
        ),
        name="grouped_matmul",
    )
    return launch(group_offsets, group_ids, m_tile_ids, x, w)


# ---- star_tables ----

"""Index maps with *tables, a list of results, and a limit for VMEM.

Stars: 3
"""


def launch_grouped_matmul(x, w, group_sizes, *, tm, tk, tn):
    M, K = x.shape
    N = w.shape[-1]
    *tables, visits = group_metadata(group_sizes, M=M, tm=tm)
    grid_spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=len(tables),
        grid=(pl.cdiv(N, tn), visits, pl.cdiv(K, tk)),
        in_specs=[
            pl.BlockSpec((tm, tk), lambda j, v, k, *t: (t[2][v], k)),
            pl.BlockSpec((None, tk, tn), lambda j, v, k, *t: (t[1][v], k, j)),
        ],
        out_specs=[pl.BlockSpec((tm, tn), lambda j, v, k, *t: (t[2][v], j))],
        scratch_shapes=[pltpu.VMEM((tm, tn), jnp.float32)],
    )
    return pl.pallas_call(
        launch_grouped_matmul_kernel,
        grid_spec=grid_spec,
        out_shape=[jax.ShapeDtypeStruct((M, N), x.dtype)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "arbitrary", "arbitrary"),
            vmem_limit_bytes=64 * 1024 * 1024,
        ),
    )(*tables, x, w)[0]
