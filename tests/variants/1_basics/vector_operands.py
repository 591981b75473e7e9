"""Right kernels of vector_operands in other styles: see docs/authoring.md."""

# ---- reshaped ----

"""Reshapes the vector into a column, and broadcasts by hand.

Stars: 3
"""


def vector_operands_kernel(x_ref, scale_ref, bias_ref, o_ref):
    bm, bn = x_ref.shape
    scale = scale_ref[...].astype(jnp.float32).reshape(bm, 1)
    bias = jnp.broadcast_to(bias_ref[...].astype(jnp.float32)[None, :], (bm, bn))
    o_ref[...] = (x_ref[...].astype(jnp.float32) * scale + bias).astype(o_ref.dtype)


# ---- whole_vectors ----

"""Both vectors are whole in VMEM, and the body slices them; lax broadcasts.

Stars: 3
"""


def vector_operands_kernel(x_ref, scale_ref, bias_ref, o_ref):
    bm, bn = x_ref.shape
    rows = pl.ds(pl.multiple_of(pl.program_id(0) * bm, bm), bm)
    columns = pl.ds(pl.multiple_of(pl.program_id(1) * bn, bn), bn)
    scale = scale_ref[rows].astype(jnp.float32)
    bias = bias_ref[columns].astype(jnp.float32)
    scales = jax.lax.broadcast_in_dim(scale, (bm, bn), (0,))
    biases = jax.lax.broadcast_in_dim(bias, (bm, bn), (1,))
    o_ref[...] = (x_ref[...].astype(jnp.float32) * scales + biases).astype(o_ref.dtype)


def vector_operands(x, scale, bias, *, bm, bn):
    M, N = x.shape
    block = pl.BlockSpec((bm, bn), lambda i, j: (i, j))
    return pl.pallas_call(
        vector_operands_kernel,
        grid=(M // bm, N // bn),
        in_specs=[
            block,
            pl.BlockSpec((M,), lambda i, j: (0,)),
            pl.BlockSpec((N,), lambda i, j: (0,)),
        ],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
    )(x, scale, bias)
