"""Multiply the rows of each group by the group's own matrix, for groups of equal size.

Goal
    Write the BlockSpecs of a grouped matmul. The rows of x are sorted by group.
    Each of the G groups has M / G rows, and the rows of group g are multiplied
    by w[g]. M / G is a multiple of tm. The grid and the kernel are given.

Concept
    In a mixture-of-experts layer each row of x is a token and each w[g] is an
    expert. Once the rows are sorted, an expert's rows lie together, so a tile
    of tm rows needs only one matrix of the stack:

              x [M, K]                          w [G, K, N]
            +----------+
        i=0 |          | --+                   +--------------+
            | group 0  |   +-----------------> |     w[0]     |
        i=1 |          | --+                   +--------------+
            +----------+
        i=2 |          | --+                   +--------------+
            | group 1  |   +-----------------> |     w[1]     |
        i=3 |          | --+                   +--------------+
            +----------+
        ...

    This is one matmul with one grid, not G of them. The kernel is that of a
    plain matmul. Only the choice of w's block depends on the groups.

    Why is j, the index of the columns, first in the grid? A block is fetched
    when its indices change from one step to the next. With tk = K there is a
    single k step, and w's block stays in VMEM for all tiles of a group. With
    tk = K / 2 the steps go k = 0, 1, 0, 1, ..., and all of w[g] is fetched
    again for every tile. Eight experts of 2048 x 2048 in bfloat16 are 64 MiB,
    which a v5e reads in 82 µs. With 8192 rows in 16 tiles, the reads of w are:

        tk = 2048    once per group:  8 matrices     64 MiB     82 µs
        tk = 1024    once per tile:  16 matrices    128 MiB    164 µs

    The matrix unit of a v5e needs 349 µs for the whole product, so either read can be
    hidden behind it. A v6e multiplies 4.7 times as fast but reads only twice as fast,
    so the difference shows there.

    One thing in the kernel is new. The last product isn't stored in acc_ref and read
    back right away; the kernel adds it to acc_ref's value and stores the sum in o_ref.
    A `pl.when` is a branch, and the compiler overlaps only work that is in the same
    branch. Here, some rows are stored while others are multiplied.

Shapes
    name      dtype[dims]        memory space   Ref's shape   block
    x_ref     x.dtype[M, K]      VMEM           (tm, tk)      yours
    w_ref     x.dtype[G, K, N]   VMEM           (tk, tn)      yours
    o_ref     x.dtype[M, N]      VMEM           (tm, tn)      yours
    acc_ref   float32[tm, tn]    VMEM scratch   (tm, tn)      -

    The grid is (N / tn, M / tm, K / tk), with indices j, i, k.

Try
    pytest -k aligned_grouped_matmul          stuck?  kata hint aligned_grouped_matmul

Needs     batched_matmul
Read on   Switch Transformers, https://arxiv.org/abs/2101.03961
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float


def aligned_grouped_matmul_spec(
    x: Float[Array, "M K"], w: Float[Array, "G K N"]
) -> Float[Array, "M N"]:
    """The required result, in plain jax.numpy."""
    (M, K), (G, _, N) = x.shape, w.shape
    return (x.reshape(G, M // G, K) @ w).reshape(M, N)


def aligned_grouped_matmul_kernel(x_ref, w_ref, o_ref, acc_ref):
    k, last = pl.program_id(2), pl.num_programs(2) - 1

    def product():
        return jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)

    @pl.when(k == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    @pl.when(k < last)
    def _():
        acc_ref[...] += product()

    @pl.when(k == last)
    def _():
        o_ref[...] = (acc_ref[...] + product()).astype(o_ref.dtype)


def aligned_grouped_matmul(
    x: Float[Array, "M K"],
    w: Float[Array, "G K N"],
    *,
    tm: int = 512,
    tk: int = 1024,
    tn: int = 1024,
) -> Float[Array, "M N"]:
    """Launch: a tiled matmul in which each tile of rows has its own matrix in the stack."""
    M, K = x.shape
    G, _, N = w.shape
    # BEGIN SOLUTION
    raise NotImplementedError(
        "define x_spec, w_spec and o_spec: the blocks of x, of w and of the result that step (j, i, k) sees"
    )
    # END SOLUTION
    return pl.pallas_call(
        aligned_grouped_matmul_kernel,
        grid=(N // tn, M // tm, K // tk),
        in_specs=[x_spec, w_spec],
        out_specs=o_spec,
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
        scratch_shapes=[pltpu.VMEM((tm, tn), jnp.float32)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary")
        ),
        name="aligned_grouped_matmul",
    )(x, w)


def test_aligned_grouped_matmul(hidden_case):
    hidden_case.grade(aligned_grouped_matmul)
