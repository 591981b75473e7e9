"""Right kernels of batched_matmul in other styles: see docs/authoring.md."""

# ---- blocks_of_one ----

"""Keeps the batch's dimension of size 1 in every block, and indexes it away.

Stars: 3
"""


def batched_matmul_kernel(x_ref, y_ref, o_ref, acc_ref):
    k = pl.program_id(3)

    @pl.when(k == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(x_ref[0], y_ref[0], preferred_element_type=jnp.float32)

    @pl.when(k == pl.num_programs(3) - 1)
    def _():
        o_ref[0] = acc_ref[...].astype(o_ref.dtype)


def batched_matmul(x, y, *, bm, bn, bk):
    B, M, K = x.shape
    _, _, N = y.shape
    return pl.pallas_call(
        batched_matmul_kernel,
        grid=(B, M // bm, N // bn, K // bk),
        in_specs=[
            pl.BlockSpec((1, bm, bk), lambda b, i, j, k: (b, i, k)),
            pl.BlockSpec((1, bk, bn), lambda b, i, j, k: (b, k, j)),
        ],
        out_specs=pl.BlockSpec((1, bm, bn), lambda b, i, j, k: (b, i, j)),
        out_shape=jax.ShapeDtypeStruct((B, M, N), x.dtype),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "parallel", "arbitrary")
        ),
    )(x, y)


# ---- squeezed ----

"""pl.squeezed for the batch, and index maps that take a tuple of the grid's indices.

Stars: 3
"""


def batched_matmul(x, y, *, bm, bn, bk):
    B, M, K = x.shape
    N = y.shape[2]

    def spec(rows, columns, place):
        return pl.BlockSpec((pl.squeezed, rows, columns), lambda b, *ijk: (b, *place(*ijk)))

    return pl.pallas_call(
        batched_matmul_kernel,
        grid=(B, M // bm, N // bn, K // bk),
        in_specs=[
            spec(bm, bk, lambda i, j, k: (i, k)),
            spec(bk, bn, lambda i, j, k: (k, j)),
        ],
        out_specs=spec(bm, bn, lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((B, M, N), x.dtype),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "parallel", "arbitrary")
        ),
    )(x, y)


# ---- vmap ----

"""jax.vmap of the launch for two matrices.

Stars: 3
"""


def matmul_kernel(x_ref, y_ref, o_ref, acc_ref):
    @pl.when(pl.program_id(2) == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _():
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)


def batched_matmul(x, y, *, bm, bn, bk):
    (_, M, K), N = x.shape, y.shape[2]
    matmul = pl.pallas_call(
        matmul_kernel,
        grid=(M // bm, N // bn, K // bk),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)),
            pl.BlockSpec((bk, bn), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary")
        ),
    )
    return jax.vmap(matmul)(x, y)


# ---- squeezed ----

"""Writes pl.Squeezed() for None, and names its scratch buffer.

Stars: 3
"""


def batched_matmul(x, y, *, bm=512, bn=512, bk=512):
    (B, M, K), N = x.shape, y.shape[2]
    one = pl.Squeezed()
    return pl.pallas_call(
        batched_matmul_kernel,
        grid=(B, M // bm, N // bn, K // bk),
        in_specs=[
            pl.BlockSpec((one, bm, bk), lambda b, i, j, k: (b, i, k)),
            pl.BlockSpec((one, bk, bn), lambda b, i, j, k: (b, k, j)),
        ],
        out_specs=pl.BlockSpec((one, bm, bn), lambda b, i, j, k: (b, i, j)),
        out_shape=jax.ShapeDtypeStruct((B, M, N), x.dtype),
        scratch_shapes={"acc_ref": pltpu.VMEM((bm, bn), jnp.float32)},
    )(x, y)
