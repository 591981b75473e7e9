"""Right kernels of swiglu in other styles: see docs/authoring.md."""

# ---- last_product ----

"""Adds the last products on the way to the result, and not to the accumulators.

Stars: 3
"""


def swiglu_kernel(x_ref, gate_ref, up_ref, o_ref, gate_acc, up_acc):
    k, last = pl.program_id(2), pl.num_programs(2) - 1

    @pl.when(k == 0)
    def _():
        gate_acc[...] = jnp.zeros_like(gate_acc)
        up_acc[...] = jnp.zeros_like(up_acc)

    def total(acc, w_ref):
        return acc[...] + jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)

    @pl.when(k < last)
    def _():
        gate_acc[...] = total(gate_acc, gate_ref)
        up_acc[...] = total(up_acc, up_ref)

    @pl.when(k == last)
    def _():
        z = total(gate_acc, gate_ref)
        o_ref[...] = (z / (1 + jnp.exp(-z)) * total(up_acc, up_ref)).astype(o_ref.dtype)


# ---- one_scratch ----

"""Both sums in one scratch with a dimension of two, and the first products stored, not added.

Stars: 3
"""


def swiglu_kernel(x_ref, gate_ref, up_ref, o_ref, acc_ref):
    for half, w_ref in enumerate((gate_ref, up_ref)):
        product = jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(2) == 0)
        def _(half=half, product=product):
            acc_ref[half] = product

        @pl.when(pl.program_id(2) > 0)
        def _(half=half, product=product):
            acc_ref[half] += product

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _():
        z = acc_ref[0]
        o_ref[...] = (z * jax.nn.sigmoid(z) * acc_ref[1]).astype(o_ref.dtype)


def swiglu(x, gate, up, *, bm=512, bn=1024, bk=512):
    M, K = x.shape
    _, N = gate.shape
    of_weights = pl.BlockSpec((bk, bn), lambda i, j, k: (k, j))
    return pl.pallas_call(
        swiglu_kernel,
        grid=(pl.cdiv(M, bm), N // bn, K // bk),
        in_specs=[pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)), of_weights, of_weights],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
        scratch_shapes=[pltpu.VMEM((2, bm, bn), jnp.float32)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary")
        ),
    )(x, gate, up)


# ---- one_pipeline ----

"""No grid: one emit_pipeline over all blocks, whose sums come from run_scoped.

Stars: 3
"""


def swiglu(x, gate, up, *, bm, bn, bk):
    M, K = x.shape
    _, N = gate.shape
    steps = K // bk

    def kernel(*hbm):
        def scoped(*sums):
            def step(x_ref, gate_ref, up_ref, o_ref):
                k = pl.program_id(2)

                def add(acc, w_ref):
                    part = jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)

                    @pl.when(k == 0)
                    def _():
                        acc[...] = part

                    @pl.when(k != 0)
                    def _():
                        acc[...] += part

                add(sums[0], gate_ref)
                add(sums[1], up_ref)

                @pl.when(k == steps - 1)
                def _():
                    z, y = (acc[...] for acc in sums)
                    o_ref[...] = (z * jax.lax.logistic(z) * y).astype(o_ref.dtype)

            weights = pl.BlockSpec((bk, bn), lambda i, j, k: (k, j))
            pltpu.emit_pipeline(
                step,
                grid=(pl.cdiv(M, bm), N // bn, steps),
                in_specs=[pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)), weights, weights],
                out_specs=[pl.BlockSpec((bm, bn), lambda i, j, k: (i, j))],
            )(*hbm)

        pl.run_scoped(scoped, *[pltpu.VMEM((bm, bn), jnp.float32)] * 2)

    hbm = pl.BlockSpec(memory_space=pltpu.HBM)
    return pl.pallas_call(
        kernel,
        in_specs=[hbm] * 3,
        out_specs=hbm,
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
        name="swiglu",
    )(x, gate, up)
