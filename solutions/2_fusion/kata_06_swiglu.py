"""Compute both products of a gated layer from one read of x, and gate them in VMEM.

Goal
    Write the kernel, the input specs and the scratch of the first half of the
    feed-forward layer of Llama, Qwen and most others:

        o = silu(x @ gate) * (x @ up),        silu(z) = z / (1 + exp(-z))

    Both products are sums over K, which the grid cuts into blocks of bk. M need not be
    a multiple of bm.

Concept
    The epilogue of fused_matmul needed only its own block of sums. Here each result
    needs two sums, of the same row of x and of the same column of two matrices. If two
    kernels compute one sum each, 128 MiB go through HBM in between (M = N = 8192,
    K = 2048 in bfloat16):

        two products, as by XLA                 one kernel

        x, gate --> sums --> silu               x, gate, up
                              | 128 MiB                |
                             HBM                 two sums in VMEM
                              | 128 MiB                |
        x, up   --> sums --> times              silu, times
                              | 128 MiB                | 128 MiB
                             HBM                      HBM

    A fused kernel keeps both sums at once: two float32 accumulators for each block of
    the result. Each block of x that is fetched is then multiplied twice. The price is
    VMEM: with bm = 512 and bn = 1024 the accumulators take 4 MiB of it, so the blocks
    cannot be as large as in a kernel with one sum.

    How much does it save? At these sizes, XLA's two loops move at least 512 MiB, and a
    fused kernel at least 224. But the products alone keep the matrix unit busy for
    2796 µs, while copies overlap: the prediction is 3210 µs for this kernel, and XLA
    estimates 3780 µs for its two loops. So fusing gains less than in the previous
    layers. It gains more if K is small, or if XLA has no such loop, as for the grouped
    matmuls of a mixture of experts.

    Apply silu, which isn't linear, only when both sums are complete: after the last
    block along K. Rows past the edge of x are garbage here, but a row of the result
    depends only on its own row.

Shapes
    name               dtype[dims]       memory space   Ref's shape   block
    x_ref              x.dtype[M, K]     VMEM           (bm, bk)      (i, k)
    gate_ref, up_ref   x.dtype[K, N]     VMEM           (bk, bn)      yours
    o_ref              x.dtype[M, N]     VMEM           (bm, bn)      (i, j)
    gate_acc, up_acc   float32[bm, bn]   VMEM scratch   (bm, bn)      -

    The grid is (pl.cdiv(M, bm), N / bn, K / bk). bn divides N, and bk divides K.

Try
    pytest -k swiglu                stuck?  kata hint swiglu

Needs     rms_norm, fused_matmul
Read on   GLU Variants Improve Transformer, https://arxiv.org/abs/2002.05202
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float


def swiglu_spec(
    x: Float[Array, "M K"], gate: Float[Array, "K N"], up: Float[Array, "K N"]
) -> Float[Array, "M N"]:
    """The required result, in plain jax.numpy."""
    return jax.nn.silu(x @ gate) * (x @ up)


def swiglu_kernel(x_ref, gate_ref, up_ref, o_ref, gate_acc, up_acc):
    # BEGIN SOLUTION
    @pl.when(pl.program_id(2) == 0)
    def _():
        gate_acc[...] = jnp.zeros_like(gate_acc)
        up_acc[...] = jnp.zeros_like(up_acc)

    x = x_ref[...]
    gate_acc[...] += jnp.dot(x, gate_ref[...], preferred_element_type=jnp.float32)
    up_acc[...] += jnp.dot(x, up_ref[...], preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _():
        o_ref[...] = (jax.nn.silu(gate_acc[...]) * up_acc[...]).astype(o_ref.dtype)

    # END SOLUTION


def swiglu(
    x: Float[Array, "M K"],
    gate: Float[Array, "K N"],
    up: Float[Array, "K N"],
    *,
    bm: int = 512,
    bn: int = 1024,
    bk: int = 512,
) -> Float[Array, "M N"]:
    """Launch: a tiled matmul with two right operands, and an accumulator for each."""
    M, K = x.shape
    _, N = gate.shape
    # BEGIN SOLUTION
    of_weights = pl.BlockSpec((bk, bn), lambda i, j, k: (k, j))
    in_specs = [pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)), of_weights, of_weights]
    scratch_shapes = [pltpu.VMEM((bm, bn), jnp.float32), pltpu.VMEM((bm, bn), jnp.float32)]
    # END SOLUTION
    return pl.pallas_call(
        swiglu_kernel,
        grid=(pl.cdiv(M, bm), N // bn, K // bk),
        in_specs=in_specs,
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
        scratch_shapes=scratch_shapes,
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary")
        ),
        name="swiglu",
    )(x, gate, up)


# ---- Given: inputs and helpers. ----


def swiglu_inputs(key, *, M, K, N, dtype):
    """Gates from where silu is nearly flat to where it is nearly a line."""
    x_key, gate_key, up_key = jax.random.split(key, 3)
    x = jax.random.normal(x_key, (M, K)) + jnp.linspace(-1, 1, K)
    gate = jax.random.normal(gate_key, (K, N)) * 2 * K**-0.5
    up = jax.random.normal(up_key, (K, N)) * K**-0.5
    return x.astype(dtype), gate.astype(dtype), up.astype(dtype)


def test_swiglu(hidden_case):
    hidden_case.grade(swiglu)
