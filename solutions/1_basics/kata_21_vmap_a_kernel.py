"""Turn a layer for one sequence into a layer for a batch, with jax.vmap.

Goal
    Write the launch of result[b] = x[b] @ w + bias[b]. All b share the weights, but each has
    its own bias, for example one per speaker or task. The kernel is that of one sequence: it
    has no b and doesn't change. First write the launch for one sequence, then let `jax.vmap`
    batch it.

Concept
    In batched_matmul you put an axis in front of the grid, and None into every block.
    `jax.vmap` does both to a `pallas_call`, with any kernel:

                         your launch      vmap's, of 16 sequences
        grid             (2,)             (16, 2)
        x                (256, 1024)      (None, 256, 1024)
        w                (1024, 1024)     (1024, 1024)
        bias             (1, 1024)        (None, 1, 1024)
        index map of x   i -> (i, 0)      b, i -> (b, i, 0)
        index map of w   i -> (0, 0)      b, i -> (0, 0)
        promise          parallel         parallel, parallel

    The kernel doesn't notice. Its Refs keep their shapes, and `pl.program_id(0)` is still i.
    `kata view` shows the resulting grid.

    w is treated differently because `in_axes` says so. It has an entry for each argument: the
    dimension of the batch, or None for a shared argument:

        jax.vmap(function, in_axes=(...))(a, b, c)

    A shared block is the same in all steps, so it is fetched once and stays in VMEM. If each
    b had a copy of w, every b would fetch its own. For 16 sequences of 512 x 1024 and w of
    1024 x 1024, in bfloat16:

                            HBM traffic of the kernel       time on a v5e
        w shared             34 MiB                              99 µs
        16 copies of w       64 MiB                             118 µs
        a loop around it     64 MiB, in 16 runs                 168 µs

    The table leaves out writing the copies, which is 32 MiB more. In the loop, no run can
    prefetch its first blocks while the previous one is running.

    Index maps can do more than in_axes, such as let two b share a block. And vmap can't put a
    batch of scalar-prefetch tables into one grid: it puts a loop around the kernel instead.

Shapes
    name       dtype[dims]     memory space   Ref's shape   block
    x_ref      x.dtype[M, K]   VMEM           (bm, K)       yours
    w_ref      x.dtype[K, N]   VMEM           (K, N)        yours
    bias_ref   x.dtype[1, N]   VMEM           (1, N)        yours
    o_ref      x.dtype[M, N]   VMEM           (bm, N)       yours

    The grid is (M / bm,). The batch has x[B, M, K], w[K, N] and bias[B, 1, N].

Try
    pytest -k vmap_a_kernel          stuck?  kata hint vmap_a_kernel

Needs     batched_matmul, launch_vector_add
Read on   jax.vmap, https://docs.jax.dev/en/latest/automatic-vectorization.html
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float


def vmap_a_kernel_spec(
    x: Float[Array, "B M K"], w: Float[Array, "K N"], bias: Float[Array, "B 1 N"]
) -> Float[Array, "B M N"]:
    """The required result, in plain jax.numpy."""
    return x @ w + bias


def layer(x, w, bias, *, bm):
    """Launch for one sequence: x[M, K] @ w[K, N] + bias[1, N], in blocks of bm rows."""
    # BEGIN SOLUTION
    (M, K), (_, N) = x.shape, w.shape
    return pl.pallas_call(
        layer_kernel,
        grid=(M // bm,),
        in_specs=[
            pl.BlockSpec((bm, K), lambda i: (i, 0)),
            pl.BlockSpec((K, N), lambda i: (0, 0)),
            pl.BlockSpec((1, N), lambda i: (0, 0)),
        ],
        out_specs=pl.BlockSpec((bm, N), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
        name="layer",
    )(x, w, bias)
    # END SOLUTION


def vmap_a_kernel(
    x: Float[Array, "B M K"], w: Float[Array, "K N"], bias: Float[Array, "B 1 N"], *, bm: int = 256
) -> Float[Array, "B M N"]:
    """Launch for the batch: `layer` for every b, in one kernel."""
    # BEGIN SOLUTION
    return jax.vmap(lambda x, w, bias: layer(x, w, bias, bm=bm), in_axes=(0, None, 0))(x, w, bias)
    # END SOLUTION


# ---- Given: inputs and helpers. ----


def layer_kernel(x_ref, w_ref, bias_ref, o_ref):
    total = jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)
    o_ref[...] = (total + bias_ref[...].astype(jnp.float32)).astype(o_ref.dtype)


def test_vmap_a_kernel(hidden_case):
    hidden_case.grade(vmap_a_kernel)
