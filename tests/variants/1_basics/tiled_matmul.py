"""Right kernels of tiled_matmul in other styles: see docs/authoring.md."""

# ---- einsum ----

"""Stores the first product, adds the others, and multiplies with einsum.

Stars: 3
"""


def tiled_matmul_kernel(x_ref, y_ref, o_ref, acc_ref):
    k, last = pl.program_id(2), pl.num_programs(2) - 1
    product = jnp.einsum("mk,kn->mn", x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

    @pl.when(k == 0)
    def _():
        acc_ref[...] = product

    @pl.when(k > 0)
    def _():
        acc_ref[...] += product

    @pl.when(k == last)
    def _():
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)


# ---- emit_pipeline ----

"""A pipeline inside the kernel; the accumulator comes from run_scoped.

Stars: 3
"""


def tiled_matmul(x, y, *, bm, bn, bk):
    M, K = x.shape
    _, N = y.shape

    def kernel(x_ref, y_ref, o_ref):
        def scoped(acc_ref):
            pltpu.emit_pipeline(
                lambda *refs: tiled_matmul_kernel(*refs, acc_ref),
                grid=(M // bm, N // bn, K // bk),
                in_specs=[
                    pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)),
                    pl.BlockSpec((bk, bn), lambda i, j, k: (k, j)),
                ],
                out_specs=[pl.BlockSpec((bm, bn), lambda i, j, k: (i, j))],
            )(x_ref, y_ref, o_ref)

        pl.run_scoped(scoped, pltpu.VMEM((bm, bn), jnp.float32))

    return pl.pallas_call(
        kernel,
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)] * 2,
        out_specs=pl.BlockSpec(memory_space=pl.ANY),
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
    )(x, y)


# ---- last_product ----

"""Adds the last product on its way to the output: lax.cond and dot_general.

Stars: 3
"""


def tiled_matmul_kernel(x_ref, y_ref, o_ref, acc_ref):
    k, last = pl.program_id(2), pl.num_programs(2) - 1
    dimensions = (((1,), (0,)), ((), ()))
    total = jax.lax.dot_general(
        x_ref[...], y_ref[...], dimensions, preferred_element_type=jnp.float32
    ) + jnp.where(k == 0, 0, acc_ref[...])

    def keep():
        acc_ref[...] = total

    def store():
        o_ref[...] = total.astype(o_ref.dtype)

    jax.lax.cond(k == last, store, keep)


# ---- strips_of_k ----

"""Takes the blocks in strips of 128 along k, in a loop that carries the sum.

Stars: 3
"""


def tiled_matmul_kernel(x_ref, y_ref, o_ref, acc_ref):
    k = pl.program_id(2)

    @pl.when(k == 0)
    def _():
        acc_ref[:, :] = jnp.zeros(acc_ref.shape, acc_ref.dtype)

    total = acc_ref[:, :]
    for start in range(0, x_ref.shape[1], 128):
        at = pl.ds(start, 128)
        total = total + jax.lax.dot(x_ref[:, at], y_ref[at, :], preferred_element_type=jnp.float32)
    acc_ref[:, :] = total

    @pl.when(k + 1 == pl.num_programs(2))
    def _():
        o_ref[:, :] = total.astype(o_ref.dtype)
