"""Differentiate a gated layer: compute an operand in VMEM, and multiply with it there.

Goal
    The forward pass of swiglu has kept both products, z = x @ gate and u = x @ up, and the
    loss has the gradient do with respect to o = silu(z) * u. Write the body of the kernel
    that computes three gradients, with s = sigmoid(z):

        dz = do * u * s * (1 + z * (1 - s))
        du = do * z * s
        dx = dz @ gate.T + du @ up.T

    M need not be a multiple of bm. The launch is given.

Concept
    An *epilogue* works on a product's result before it leaves VMEM, as in fused_matmul. A
    *prologue* is its mirror image: it computes a product's operand just before the matrix
    unit needs it. Here the operands are dz and du, elementwise functions of three arrays:

          z, u, do (bm, bn)                        gate, up (K, bn)
               |                                        |
            prologue --> dz, du (bm, bn) --- products --+
                           |                    |
                           |             + dx_acc (bm, K)
                           v                    v  after the last block of N
                          HBM                  HBM

    dz and du also go to HBM, because the gradients of the weights, x.T @ dz and x.T @ du,
    need them. (These are plain products, which XLA computes as fast as a kernel.) But the
    products for dx no longer read them from HBM: of M x N = 8192 x 8192 numbers in bfloat16,
    that saves 256 MiB, or 328 µs on a v5e.

    The danger of a prologue is its repetition. In a tiled matmul, each block of the left
    operand is used once for every block of columns of the result, and the prologue would run
    as often. So give the result all its columns: dx_acc has K of them. In bfloat16 with K =
    2048, the products take 2796 µs at the v5e's peak. The vector unit computes the prologue
    meanwhile, and the kernel is predicted to take 3097 µs.

    Compute silu's gradient in float32. Round dz and du once: store and multiply the same
    values. gate has the layout of the forward pass, [K, N]: contract the last dimension of
    both operands, for example with jnp.einsum. It is as fast as any other. Rows past the edge
    hold garbage, but a row of dx depends only on its own row: no mask is needed.

Shapes
    name              dtype[dims]      memory space   Ref's shape   block
    z_ref, u_ref      z.dtype[M, N]    VMEM           (bm, bn)      (i, j)
    gate_ref, up_ref  z.dtype[K, N]    VMEM           (K, bn)       (0, j)
    do_ref            z.dtype[M, N]    VMEM           (bm, bn)      (i, j)
    dz_ref, du_ref    z.dtype[M, N]    VMEM           (bm, bn)      (i, j)
    dx_ref            z.dtype[M, K]    VMEM           (bm, K)       (i, 0)
    dx_acc            float32[bm, K]   VMEM scratch   (bm, K)       -

    The grid is (pl.cdiv(M, bm), N / bn). bn divides N.

Try
    pytest -k swiglu_backward         stuck?  kata hint swiglu_backward

Needs     swiglu, softmax_backward
Read on   GLU Variants Improve Transformer, https://arxiv.org/abs/2002.05202
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float


def swiglu_backward_spec(
    z: Float[Array, "M N"],
    u: Float[Array, "M N"],
    gate: Float[Array, "K N"],
    up: Float[Array, "K N"],
    do: Float[Array, "M N"],
) -> tuple[Float[Array, "M N"], Float[Array, "M N"], Float[Array, "M K"]]:
    """The required result, in plain jax.numpy: dz, du and dx."""
    _, pullback = jax.vjp(lambda z, u: jax.nn.silu(z) * u, z, u)
    dz, du = pullback(do)
    return dz, du, dz @ gate.T + du @ up.T


def swiglu_backward_kernel(z_ref, u_ref, gate_ref, up_ref, do_ref, dz_ref, du_ref, dx_ref, dx_acc):
    # BEGIN SOLUTION
    @pl.when(pl.program_id(1) == 0)
    def _():
        dx_acc[...] = jnp.zeros_like(dx_acc)

    z, u, do = (ref[...].astype(jnp.float32) for ref in (z_ref, u_ref, do_ref))
    s = jax.nn.sigmoid(z)
    dz = (do * u * s * (1 + z * (1 - s))).astype(dz_ref.dtype)
    du = (do * z * s).astype(du_ref.dtype)
    dz_ref[...], du_ref[...] = dz, du
    for d, weights_ref in ((dz, gate_ref), (du, up_ref)):
        dx_acc[...] += jnp.einsum(
            "mn,kn->mk", d, weights_ref[...], preferred_element_type=jnp.float32
        )

    @pl.when(pl.program_id(1) == pl.num_programs(1) - 1)
    def _():
        dx_ref[...] = dx_acc[...].astype(dx_ref.dtype)

    # END SOLUTION


def swiglu_backward(
    z: Float[Array, "M N"],
    u: Float[Array, "M N"],
    gate: Float[Array, "K N"],
    up: Float[Array, "K N"],
    do: Float[Array, "M N"],
    *,
    bm: int = 512,
    bn: int = 128,
) -> tuple[Float[Array, "M N"], Float[Array, "M N"], Float[Array, "M K"]]:
    """Launch: for each block of rows, a step for each block of the N hidden features."""
    (M, N), K = z.shape, len(gate)
    block = pl.BlockSpec((bm, bn), lambda i, j: (i, j))
    weights = pl.BlockSpec((K, bn), lambda i, j: (0, j))
    return pl.pallas_call(
        swiglu_backward_kernel,
        grid=(pl.cdiv(M, bm), N // bn),
        in_specs=[block, block, weights, weights, block],
        out_specs=[block, block, pl.BlockSpec((bm, K), lambda i, j: (i, 0))],
        out_shape=[
            jax.ShapeDtypeStruct((M, N), z.dtype),
            jax.ShapeDtypeStruct((M, N), z.dtype),
            jax.ShapeDtypeStruct((M, K), z.dtype),
        ],
        scratch_shapes=[pltpu.VMEM((bm, K), jnp.float32)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "arbitrary"), vmem_limit_bytes=32 * 2**20
        ),
        name="swiglu_backward",
    )(z, u, gate, up, do)


# ---- Given: inputs and helpers. ----


def swiglu_backward_inputs(key, *, M, K, N, dtype):
    """Gates from where silu is nearly flat to where it is nearly a line."""
    z_key, u_key, gate_key, up_key, do_key = jax.random.split(key, 5)
    z = jax.random.normal(z_key, (M, N)) * 3
    u, do = (jax.random.normal(k, (M, N)) for k in (u_key, do_key))
    gate, up = (jax.random.normal(k, (K, N)) * N**-0.5 for k in (gate_key, up_key))
    return tuple(x.astype(dtype) for x in (z, u, gate, up, do))


def test_swiglu_backward(hidden_case):
    hidden_case.grade(swiglu_backward)
