"""Right kernels of int8_matmul in other styles: see docs/authoring.md."""

# ---- scales_first ----

"""Both scales are multiplied first; the zero points' part is where the sums begin.

Stars: 3
"""


def int8_matmul_kernel(x_ref, w_ref, zero_ref, w_sum_ref, x_scale_ref, w_scale_ref, o_ref, acc_ref):
    k = pl.program_id(2)

    @pl.when(k == 0)
    def _():
        acc_ref[...] = -zero_ref[...] * w_sum_ref[...]

    acc_ref[...] += jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.int32)

    @pl.when(k == pl.num_programs(2) - 1)
    def _():
        o_ref[...] = acc_ref[...].astype(jnp.float32) * (w_scale_ref[...] * x_scale_ref[...])


# ---- two_strips ----

"""Two products of half a block of K in each step, from slices of the Refs.

Stars: 3
"""


def int8_matmul_kernel(x_ref, w_ref, zero_ref, w_sum_ref, x_scale_ref, w_scale_ref, o_ref, acc_ref):
    k, half = pl.program_id(2), max(x_ref.shape[1] // 2, 128)

    @pl.when(k == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    for start in range(0, x_ref.shape[1], half):
        x, w = x_ref[:, start : start + half], w_ref[start : start + half]
        acc_ref[...] += jax.lax.dot(x, w, preferred_element_type=jnp.int32)

    @pl.when(k == pl.num_programs(2) - 1)
    def _():
        total = acc_ref[...] - w_sum_ref[...] * zero_ref[...]
        o_ref[...] = total * w_scale_ref[...] * x_scale_ref[...]


# ---- bits_in_the_result ----

"""Adds the int32 sums in the result's block, through bitcast_convert_type of its values.

Stars: 3
"""


def int8_matmul(x, w, zero, w_sum, x_scale, w_scale, *, bm, bn, bk):
    M, K = x.shape
    N = w.shape[1]

    def kernel(x_ref, w_ref, zero_ref, w_sum_ref, x_scale_ref, w_scale_ref, o_ref):
        def load():
            return jax.lax.bitcast_convert_type(o_ref[...], jnp.int32)

        def store(total):
            o_ref[...] = jax.lax.bitcast_convert_type(total, jnp.float32)

        k = pl.program_id(2)

        @pl.when(k == 0)
        def _():
            store(jnp.zeros(o_ref.shape, jnp.int32))

        store(load() + jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.int32))

        @pl.when(k == pl.num_programs(2) - 1)
        def _():
            total = load() - zero_ref[...] * w_sum_ref[...]
            o_ref[...] = total.astype(jnp.float32) * x_scale_ref[...] * w_scale_ref[...]

    column = pl.BlockSpec((bm, 1), lambda i, j, k: (i, 0))
    row = pl.BlockSpec((1, bn), lambda i, j, k: (0, j))
    return pl.pallas_call(
        kernel,
        grid=(M // bm, N // bn, K // bk),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)),
            pl.BlockSpec((bk, bn), lambda i, j, k: (k, j)),
            *(column, row) * 2,
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((M, N), jnp.float32),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary")
        ),
    )(x, w, zero, w_sum, x_scale, w_scale)


# ---- sums_in_the_result ----

"""Adds the int32 sums in the result's own block, seen as int32 through bitcast: no scratch.

Stars: 3
"""


def int8_matmul(x, w, zero, w_sum, x_scale, w_scale, *, bm, bn, bk):
    M, K = x.shape
    N = w.shape[1]

    def kernel(x_ref, w_ref, zero_ref, w_sum_ref, x_scale_ref, w_scale_ref, o_ref):
        sums = o_ref.bitcast(jnp.int32)
        k = pl.program_id(2)

        @pl.when(k == 0)
        def _():
            sums[...] = jnp.zeros(sums.shape, jnp.int32)

        sums[...] += jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.int32)

        @pl.when(k == pl.num_programs(2) - 1)
        def _():
            total = sums[...] - zero_ref[...] * w_sum_ref[...]
            o_ref[...] = total.astype(jnp.float32) * x_scale_ref[...] * w_scale_ref[...]

    column = pl.BlockSpec((bm, 1), lambda i, j, k: (i, 0))
    row = pl.BlockSpec((1, bn), lambda i, j, k: (0, j))
    return pl.pallas_call(
        kernel,
        grid=(M // bm, N // bn, K // bk),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)),
            pl.BlockSpec((bk, bn), lambda i, j, k: (k, j)),
            *(column, row) * 2,
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((M, N), jnp.float32),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary")
        ),
    )(x, w, zero, w_sum, x_scale, w_scale)
