"""Cut a batch of matrices into blocks for a kernel that knows no batch.

Goal
    Write the BlockSpecs of a batched matmul: result[b] = x[b] @ y[b]. Grid and
    kernel are given. Compare the kernel with the one of tiled_matmul before you
    begin: but for the number of the k axis, they are the same.

Concept
    Attention heads, experts, samples: most matmuls in a model come in stacks.
    A stack asks for one more grid axis and for nothing else. It goes in front,
    so that k is still innermost and every sum is finished before the next one
    begins:

                    b = 0               b = 1               b = 2
                +-----------+       +-----------+       +-----------+
        x       | (i, k)    |       | (i, k)    |       | (i, k)    |
                +-----------+       +-----------+       +-----------+
        steps    all i, j, k   -->   all i, j, k   -->   all i, j, k    -->

    Blocks must have as many dims as their array, which is three now, but the
    kernel multiplies matrices. A block of one matrix out of the stack has size
    1 in its first dim, and you can ask for that dim to be dropped from the Ref,
    by writing None for it in the block shape:

        block shape            x_ref.shape      the body reads
        (1, 16, 128)           (1, 16, 128)     x_ref[0]
        (None, 16, 128)        (16, 128)        x_ref[...]

    The dim is *squeezed*: gone from the Ref, but still in the array. The block
    is therefore still at some place along it, and the index map must still say
    which. It returns one index for each dim of the array, as ever.

    Nothing in memory changes. (8, 128) tiles are made of the last two dims of
    the array, so a matrix in a stack is laid out as it would be alone, and
    choosing one is choosing an address. That is also why the block-shape rule
    only looks at the last two dims: a dim before them may be cut to any size.

    You won't need to do this by hand each time. `jax.vmap` of a `pallas_call`
    does the very same: a grid axis in front, a squeezed dim in every block.
    Here you see what it makes, so that you can also write what it can't, such
    as index maps that let several b share one block.

Shapes
    name      dtype[dims]         memory space   Ref's shape
    x_ref     x.dtype[B, M, K]    VMEM           (bm, bk)
    y_ref     x.dtype[B, K, N]    VMEM           (bk, bn)
    o_ref     x.dtype[B, M, N]    VMEM           (bm, bn)
    acc_ref   float32             VMEM scratch   (bm, bn)

    The grid is (B, M / bm, N / bn, K / bk).

Try
    pytest -k batched_matmul        stuck?  kata hint batched_matmul
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float


def batched_matmul_spec(
    x: Float[Array, "B M K"], y: Float[Array, "B K N"]
) -> Float[Array, "B M N"]:
    """What the kernel must compute, in plain jax.numpy."""
    return x @ y


def batched_matmul_kernel(x_ref, y_ref, o_ref, acc_ref):
    @pl.when(pl.program_id(3) == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(3) == pl.num_programs(3) - 1)
    def _():
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)


def batched_matmul(
    x: Float[Array, "B M K"],
    y: Float[Array, "B K N"],
    *,
    bm: int = 512,
    bn: int = 512,
    bk: int = 512,
) -> Float[Array, "B M N"]:
    """Launch: the grid of one matmul, once for each matrix of the batch."""
    B, M, K = x.shape
    _, _, N = y.shape
    # BEGIN SOLUTION
    raise NotImplementedError(
        "x_spec, y_spec and o_spec: three BlockSpecs for arrays of rank 3 that give the kernel Refs of rank 2"
    )
    # END SOLUTION
    return pl.pallas_call(
        batched_matmul_kernel,
        grid=(B, M // bm, N // bn, K // bk),
        in_specs=[x_spec, y_spec],
        out_specs=o_spec,
        out_shape=jax.ShapeDtypeStruct((B, M, N), x.dtype),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "parallel", "arbitrary")
        ),
    )(x, y)


def test_batched_matmul(hidden_case):
    hidden_case.grade(batched_matmul)
