"""Multiply blocks of rows in the order that a table gives.

Goal
    Write the BlockSpecs of a matmul that permutes blocks of rows: block i of the
    result is block order[i] of x, times w. The permutation is an array that is known
    only when the kernel runs. The grid and the kernel are given. The kernel is
    tiled_matmul's, with one more Ref that it doesn't use.

Concept
    In a mixture of experts, tables say which rows are multiplied by which
    weights. The router computes these tables on the device, just before the
    matmul. The obvious approach is to reorder x first and then to multiply. For
    x of 4096 x 4096 in bfloat16, reordering reads 32 MiB and writes 32 MiB,
    which takes 82 µs on a v5e. The matmul then takes 174 µs (N = 1024), and it
    reads all of x anyway. It can just as well read x in the right order:

        order = [2, 0, 1]

            x in HBM                  blocks fetched            result in HBM
          0 +--------+                 step i = 0: 2             +--------+
            |   a    |                 step i = 1: 0             |  c w   |
          1 +--------+                 step i = 2: 1             +--------+
            |   b    |                                           |  a w   |
          2 +--------+                                           +--------+
            |   c    |                                           |  b w   |
            +--------+                                           +--------+

    So an index map has to read the table. Index maps run on the scalar unit, which
    starts the copies for one step while the previous step is still computing. The
    scalar unit can't read HBM, and it can't read VMEM, where the blocks are. It can
    read SMEM: 1 MiB on a v5e, addressed word by word. *Scalar prefetch* copies whole
    arrays into SMEM before the first step. These arrays are the first operands, and
    grid_spec says how many there are:

        pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=..., ...)

    Every function of the launch then also receives Refs to these tables:

        an index map     (grid indices, then the tables)
        the body         (the tables, then inputs, outputs, scratch)

    Read a table with one scalar index at a time, as in table_ref[3]. Every index map
    must accept the table as a parameter, even if it doesn't use it. As always, an
    index map returns block indices.

Shapes
    name        dtype[dims]       memory space   Ref's shape   block
    order_ref   int32[T]          SMEM           (T,)          whole
    x_ref       x.dtype[M, K]     VMEM           (tm, tk)      yours
    w_ref       x.dtype[K, N]     VMEM           (tk, tn)      yours
    o_ref       x.dtype[M, N]     VMEM           (tm, tn)      yours
    acc_ref     float32[tm, tn]   VMEM scratch   (tm, tn)      -

    The grid is (M / tm, N / tn, K / tk), and T = M / tm.

Try
    pytest -k permuted_matmul          stuck?  kata hint permuted_matmul

Needs     launch_matmul, reversed_blocks
Read on   Scalar Prefetch, https://docs.jax.dev/en/latest/pallas/tpu/sparse.html
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Int32


def permuted_matmul_spec(
    x: Float[Array, "M K"], w: Float[Array, "K N"], order: Int32[Array, "T"], *, tm: int
) -> Float[Array, "M N"]:
    """The required result, in plain jax.numpy."""
    blocks = x.reshape(-1, tm, x.shape[1])
    return blocks[order].reshape(x.shape) @ w


def permuted_matmul_kernel(order_ref, x_ref, w_ref, o_ref, acc_ref):
    """Multiply and accumulate. Given; only index maps need the table."""

    @pl.when(pl.program_id(2) == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _():
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)


def permuted_matmul(
    x: Float[Array, "M K"],
    w: Float[Array, "K N"],
    order: Int32[Array, "T"],
    *,
    tm: int = 512,
    tk: int = 512,
    tn: int = 512,
) -> Float[Array, "M N"]:
    """Launch: a tiled matmul that takes the table as its first operand."""
    M, K = x.shape
    _, N = w.shape
    # BEGIN SOLUTION
    raise NotImplementedError(
        "define the BlockSpecs x_spec, w_spec and o_spec; each index map takes three grid indices and the table's Ref"
    )
    # END SOLUTION
    return pl.pallas_call(
        permuted_matmul_kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(M // tm, N // tn, K // tk),
            in_specs=[x_spec, w_spec],
            out_specs=o_spec,
            scratch_shapes=[pltpu.VMEM((tm, tn), jnp.float32)],
        ),
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary")
        ),
        name="permuted_matmul",
    )(order, x, w)


# ---- Given: inputs and helpers. ----


def permuted_matmul_inputs(key, *, M, K, N, T, dtype):
    """Each order is a single cycle: no block keeps its place, and no two blocks merely swap."""
    x_key, w_key, order_key = jax.random.split(key, 3)
    x = jax.random.normal(x_key, (M, K)).astype(dtype)
    w = jax.random.normal(w_key, (K, N)).astype(dtype)
    circle = jax.random.permutation(order_key, T)
    order = jnp.zeros(T, jnp.int32).at[circle].set(jnp.roll(circle, 1))
    return x, w, order


def test_permuted_matmul(hidden_case):
    hidden_case.grade(permuted_matmul)
