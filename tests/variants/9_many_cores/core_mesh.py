"""Right kernels of core_mesh in other styles: see docs/authoring.md."""

# ---- halves ----

"""The first core takes the upper half of the rows, the second one the lower half.

Stars: 3
"""


def core_mesh(x, g, *, bm=256):
    M, N = x.shape

    def body(x_hbm, g_hbm, o_hbm):
        core = jax.lax.axis_index("core")
        upper = pl.cdiv(M // bm, 2)
        first = jnp.where(core == 0, 0, upper)
        steps = jnp.where(core == 0, upper, M // bm - upper)
        spec = pl.BlockSpec((bm, N), lambda i: (first + i, 0))
        pltpu.emit_pipeline(
            core_mesh_kernel, grid=(steps,), in_specs=[spec, spec], out_specs=[spec]
        )(x_hbm, g_hbm, o_hbm)

    return pl.kernel(body, out_type=jax.ShapeDtypeStruct((M, N), x.dtype), mesh=two_cores())(x, g)


# ---- shared_by_the_pipeline ----

"""The pipeline is told the name of the mesh's axis, and shares its steps out by itself.

Stars: 3
"""


def core_mesh(x, g, *, bm=256):
    M, N = x.shape
    block = pl.BlockSpec((bm, N), lambda i: (i, 0))

    def body(*refs):
        pltpu.emit_pipeline(
            core_mesh_kernel,
            grid=(M // bm,),
            in_specs=[block, block],
            out_specs=[block],
            core_axis_name="core",
            dimension_semantics=(pltpu.PARALLEL,),
        )(*refs)

    return pl.kernel(body, out_type=jax.ShapeDtypeStruct((M, N), x.dtype), mesh=two_cores())(x, g)


# ---- core_map ----

"""run_state and core_map instead of pl.kernel; a block's number is the core's plus a stride.

Stars: 3
"""


def core_mesh(x, g, *, bm):
    M, N = x.shape
    mesh = two_cores()

    def stateful(refs):
        @pl.core_map(mesh)
        def _():
            core = jax.lax.axis_index("core")
            mine = (M // bm + 1 - core) // 2
            block = pl.BlockSpec((bm, N), lambda i: (2 * i + core, 0))
            pltpu.emit_pipeline(
                core_mesh_kernel, grid=(mine,), in_specs=[block] * 2, out_specs=[block]
            )(*refs)

    return pl.run_state(stateful)((x, g, jax.lax.empty(x.shape, x.dtype)))[2]
