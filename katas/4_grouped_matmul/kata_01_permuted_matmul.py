"""Multiply blocks of rows in the order of a table.

Goal
    Write the BlockSpecs of a matmul whose blocks of rows are permuted: block i
    of the result is block order[i] of x, times w. The permutation is an array,
    known only when the kernel runs. Grid and kernel are given, and the kernel
    is tiled_matmul's, but for one more Ref that it doesn't use.

Concept
    In a mixture of experts, tables say what is multiplied with what: a router
    has made them a moment before, on the device. The obvious way is to reorder
    x first and to multiply then. For x of 4096 x 4096 in bfloat16 that means
    33.5 MB read and 33.5 MB written, 82 us on a v5e, beside a matmul of 174 us
    (N = 1024) that reads all of x anyway. It may as well read it in the right
    order:

        order = [2, 0, 1]

            x in HBM                  blocks fetched            result in HBM
          0 +--------+                 step i = 0: 2             +--------+
            |   a    |                 step i = 1: 0             |  c w   |
          1 +--------+                 step i = 2: 1             +--------+
            |   b    |                                           |  a w   |
          2 +--------+                                           +--------+
            |   c    |                                           |  b w   |
            +--------+                                           +--------+

    So an index map has to look something up. It runs on the scalar unit, which
    starts the copy for a step while the step before is still computing. It
    cannot read HBM, nor VMEM, where blocks are. It reads SMEM: 1 MiB on a v5e,
    addressed word by word. *Scalar prefetch* puts whole arrays there before the
    first step. They are the first operands, and grid_spec says how many:

        pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=..., ...)

    From then on every function of the launch gets their Refs as well:

        an index map     (grid indices, then the tables)
        the body         (the tables, then inputs, outputs, scratch)

    and there a table is read by one scalar index at a time, as in table_ref[3].
    A table costs nothing where it isn't used, but every index map has to take
    it. What an index map returns are block indices, as ever: where they come
    from, the pipeline doesn't ask.

Shapes
    name        dtype[dims]        memory space   block
    order_ref   int32[T]           SMEM           all of it, T = M / tm
    x_ref       x.dtype[M, K]      VMEM           (tm, tk)
    w_ref       x.dtype[K, N]      VMEM           (tk, tn)
    o_ref       x.dtype[M, N]      VMEM           (tm, tn)
    acc_ref     float32            VMEM scratch   (tm, tn)

    The grid is (M / tm, N / tn, K / tk).

Try
    pytest -k permuted_matmul          stuck?  kata hint permuted_matmul
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Int32


def permuted_matmul_spec(
    x: Float[Array, "M K"], w: Float[Array, "K N"], order: Int32[Array, "T"], *, tm: int
) -> Float[Array, "M N"]:
    """What the kernel must compute, in plain jax.numpy."""
    blocks = x.reshape(-1, tm, x.shape[1])
    return blocks[order].reshape(x.shape) @ w


def permuted_matmul_inputs(key, *, M, K, N, T, dtype):
    """Every order is one large circle, so no block stays, and no two just change places."""
    x_key, w_key, order_key = jax.random.split(key, 3)
    x = jax.random.normal(x_key, (M, K)).astype(dtype)
    w = jax.random.normal(w_key, (K, N)).astype(dtype)
    circle = jax.random.permutation(order_key, T)
    order = jnp.zeros(T, jnp.int32).at[circle].set(jnp.roll(circle, 1))
    return x, w, order


def permuted_matmul_kernel(order_ref, x_ref, w_ref, o_ref, acc_ref):
    """Multiply and accumulate. Given; the table has done its work before the body runs."""

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
    """Launch: a tiled matmul that is handed the table before everything else."""
    M, K = x.shape
    _, N = w.shape
    # BEGIN SOLUTION
    raise NotImplementedError(
        "x_spec, w_spec, o_spec: three BlockSpecs, whose index maps take three grid indices and the table's Ref"
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
    )(order, x, w)


def test_permuted_matmul(hidden_case):
    hidden_case.grade(permuted_matmul)
