"""Fuse a linear layer with its bias and its activation into one kernel.

Goal
    Write the body of a kernel for gelu(x @ w.T + bias), the first half of a
    transformer's feed-forward layer. The weights come as most checkpoints store
    them, (N, K), and must not be transposed in HBM. Bias and activation are
    applied while the sums are still in VMEM.

Concept
    Each kernel in a chain writes its result to HBM for the next one to read.
    With M = N = 4096 in bfloat16, bias and gelu as a kernel of their own move
    2 * 33.5 MB, which takes 82 us on a v5e:

        matmul, then bias and gelu             fused

        x, w --> VMEM --> sums                 x, w --> VMEM --> sums
                           | 33.5 MB                              |  bias, gelu
                          HBM                                     |  in VMEM
                           | 33.5 MB                              |
                          VMEM: bias, gelu                        |
                           | 33.5 MB                              | 33.5 MB
                          HBM                                    HBM

    With K = 1024 the matmul itself takes 174 us at best. What is done to the
    sums on their way out is called the *epilogue*: as long as it needs nothing
    but the block itself, it costs no traffic. It isn't linear, though: gelu of
    a sum is not the sum of gelus, so there is just one moment for it. Do it in
    float32, and round once, at the end.

    A transposed copy of w would be another kernel of this sort, with 2 * N * K
    numbers of traffic and nothing to show for it. A matmul only needs to know
    which dim of each operand is summed over:

        jnp.dot(a, b)         a [rows, sum]  b [sum, cols]    last of a, first of b
        this layer            a [rows, sum]  b [cols, sum]    last of a, last of b

        jax.lax.dot_general(a, b, dimension_numbers, preferred_element_type=...)

    dimension_numbers is a pair of pairs: (the dims of a that are summed over,
    those of b), then (batch dims of a, of b), each a tuple, empty if none.

    gelu has two definitions. Use the one with tanh, `jax.nn.gelu(...,
    approximate=True)`. The exact one rests on erfc in JAX, for which a TPU
    kernel has no rule, although it works in every interpreter.

Shapes
    name       dtype[dims]     memory space   block
    x_ref      x.dtype[M, K]   VMEM           (bm, bk)
    w_ref      x.dtype[N, K]   VMEM           (bn, bk)
    bias_ref   x.dtype[1, N]   VMEM           (1, bn)
    o_ref      x.dtype[M, N]   VMEM           (bm, bn)
    acc_ref    float32         VMEM scratch   (bm, bn)

    The grid is (M / bm, N / bn, K / bk).

Try
    pytest -k fused_matmul          stuck?  kata hint fused_matmul
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float


def fused_matmul_spec(
    x: Float[Array, "M K"], w: Float[Array, "N K"], bias: Float[Array, "1 N"]
) -> Float[Array, "M N"]:
    """What the kernel must compute, in plain jax.numpy."""
    return jax.nn.gelu(x @ w.T + bias, approximate=True)


def fused_matmul_inputs(key, *, M, N, K, dtype):
    """Weights scaled as in a fresh layer, so that gelu sees numbers where it bends."""
    x_key, w_key, bias_key = jax.random.split(key, 3)
    x = jax.random.normal(x_key, (M, K))
    w = jax.random.normal(w_key, (N, K)) * K**-0.5
    bias = jax.random.normal(bias_key, (1, N))
    return x.astype(dtype), w.astype(dtype), bias.astype(dtype)


def fused_matmul_kernel(x_ref, w_ref, bias_ref, o_ref, acc_ref):
    # BEGIN SOLUTION
    @pl.when(pl.program_id(2) == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    last_of_both = (((1,), (1,)), ((), ()))
    acc_ref[...] += jax.lax.dot_general(
        x_ref[...], w_ref[...], last_of_both, preferred_element_type=jnp.float32
    )

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _():
        y = acc_ref[...] + bias_ref[...]
        o_ref[...] = jax.nn.gelu(y, approximate=True).astype(o_ref.dtype)

    # END SOLUTION


def fused_matmul(
    x: Float[Array, "M K"],
    w: Float[Array, "N K"],
    bias: Float[Array, "1 N"],
    *,
    bm: int = 512,
    bn: int = 512,
    bk: int = 512,
) -> Float[Array, "M N"]:
    """Launch: a tiled matmul that reads w by its rows, and one block of bias per column."""
    M, K = x.shape
    N, _ = w.shape
    return pl.pallas_call(
        fused_matmul_kernel,
        grid=(M // bm, N // bn, K // bk),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)),
            pl.BlockSpec((bn, bk), lambda i, j, k: (j, k)),
            pl.BlockSpec((1, bn), lambda i, j, k: (0, j)),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary")
        ),
    )(x, w, bias)


def test_fused_matmul(hidden_case):
    hidden_case.grade(fused_matmul)
