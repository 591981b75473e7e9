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
