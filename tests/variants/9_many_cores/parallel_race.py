"""Right kernels of parallel_race in other styles: see docs/authoring.md."""

# ---- a_block_for_each_step ----

"""No step adds to what another one wrote: each has a block of sums, and XLA adds all of them.

Stars: 3
"""


def parallel_race(x, *, bm=512):
    M, N = x.shape

    def kernel(x_ref, o_ref):
        x = x_ref[...].astype(jnp.float32)
        o_ref[...] = jnp.sum((x * x).reshape(-1, 8, N), axis=0)

    sums = pl.pallas_call(
        kernel,
        grid=(M // bm,),
        in_specs=[pl.BlockSpec((bm, N), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((8, N), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((M // bm * 8, N), jnp.float32),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
    )(x)
    return jnp.sum(sums).reshape(1, 1)


# ---- every_second_block ----

"""The cores take turns, block by block, and each adds up in scratch until its last step.

Stars: 3
"""


def parallel_race(x, *, bm=512):
    M, N = x.shape

    def kernel(x_ref, o_ref, acc_ref):
        i = pl.program_id(1)

        @pl.when(i == 0)
        def _():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        x = x_ref[...].astype(jnp.float32)
        acc_ref[...] += jnp.square(x).reshape(bm // 8, 8, N).sum(0)

        @pl.when(i == pl.num_programs(1) - 1)
        def _():
            o_ref[...] = acc_ref[...]

    sums = pl.pallas_call(
        kernel,
        grid=(2, M // bm // 2),
        in_specs=[pl.BlockSpec((bm, N), lambda core, i: (2 * i + core, 0))],
        out_specs=pl.BlockSpec((8, N), lambda core, i: (core, 0)),
        out_shape=jax.ShapeDtypeStruct((16, N), jnp.float32),
        scratch_shapes=[pltpu.VMEM((8, N), jnp.float32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
    )(x)
    return sums.sum().reshape(1, 1)
