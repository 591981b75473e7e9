"""Cut a batch of matrices into blocks for a kernel that multiplies two matrices.

Goal
    Write the BlockSpecs of a batched matmul: result[b] = x[b] @ y[b]. The grid
    and the kernel are given. Compare the kernel with tiled_matmul's before you
    begin: only the number of the k axis is different.

Concept
    Attention heads, experts, samples: most matmuls in a model come in batches.
    For a batch, the grid only needs one more axis. It goes in front, so that k
    is still innermost and every sum is complete before the next one begins:

                    b = 0               b = 1               b = 2
                +-----------+       +-----------+       +-----------+
        x       | (i, k)    |       | (i, k)    |       | (i, k)    |
                +-----------+       +-----------+       +-----------+
        steps    all i, j, k   -->   all i, j, k   -->   all i, j, k    -->

    A block must have as many dimensions as its array, which is now three, but
    the kernel multiplies matrices. A block that lies in one matrix of the batch
    has size 1 in its first dimension. To drop this dimension from the Ref, write
    None for it in the block shape:

        block shape            x_ref.shape      the body reads
        (1, 16, 128)           (1, 16, 128)     x_ref[0]
        (None, 16, 128)        (16, 128)        x_ref[...]

    The dimension is *squeezed*: the Ref doesn't have it, but the array does. So
    the block still has a position along it, and the index map must still return
    this position. As always, the index map returns one block number for each
    dimension of the array.

    The layout in memory does not change. (8, 128) tiles cover the last two
    dimensions of the array, so each matrix of a batch is stored as if it were
    alone, and choosing a matrix means choosing an address. This is also why the
    block-shape rule is only about the last two dimensions: the ones before them
    may be cut to any size.

    You don't need to do this by hand every time. `jax.vmap` of a `pallas_call`
    does the same: it puts a grid axis in front, and a squeezed dimension in every
    block. When you know what vmap does, you can also write what it can't do,
    such as index maps that let several b share one block.

Shapes
    name      dtype[dims]        memory space   Ref's shape   block
    x_ref     x.dtype[B, M, K]   VMEM           (bm, bk)      yours
    y_ref     x.dtype[B, K, N]   VMEM           (bk, bn)      yours
    o_ref     x.dtype[B, M, N]   VMEM           (bm, bn)      yours
    acc_ref   float32[bm, bn]    VMEM scratch   (bm, bn)      -

    The grid is (B, M / bm, N / bn, K / bk).

Try
    pytest -k batched_matmul        stuck?  kata hint batched_matmul

Needs     launch_matmul
Read on   Grids and BlockSpecs, https://docs.jax.dev/en/latest/pallas/grid_blockspec.html
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float


def batched_matmul_spec(
    x: Float[Array, "B M K"], y: Float[Array, "B K N"]
) -> Float[Array, "B M N"]:
    """The required result, in plain jax.numpy."""
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
    """Launch: run the grid of one matmul once for each matrix of the batch."""
    B, M, K = x.shape
    _, _, N = y.shape
    # BEGIN SOLUTION
    x_spec = pl.BlockSpec((None, bm, bk), lambda b, i, j, k: (b, i, k))
    y_spec = pl.BlockSpec((None, bk, bn), lambda b, i, j, k: (b, k, j))
    o_spec = pl.BlockSpec((None, bm, bn), lambda b, i, j, k: (b, i, j))
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
        name="batched_matmul",
    )(x, y)


def test_batched_matmul(hidden_case):
    hidden_case.grade(batched_matmul)
