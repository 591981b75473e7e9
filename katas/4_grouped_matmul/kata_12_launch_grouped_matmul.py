"""Write a grouped matmul from nothing: kernel, tables, grid and tiles.

Goal
    Write the kernel and the launch of a grouped matmul: rows of x sorted by
    group, group_sizes rows for each, those of group g times w[g]. What makes
    the tables from group_sizes, group_metadata, is given. tm, tk and tn divide
    M, K and N.

Concept
    How large should tiles be? Four things pull at them.

    - Groups that share a tile have it multiplied once for each of them. That
      wastes up to tm rows per group: a reason for small tm.
    - Blocks of w are fetched at each visit, M / tm times and more. That is a
      reason for large tm; or for tk = K, for then a block stays where it is
      until j or the group changes.
    - x is fetched once for each of the N / tn blocks of columns.
    - Short steps can't hide what it takes to start a copy, and blocks that are
      too large don't fit: a v5e gives a kernel 16 MB of VMEM.

    8192 rows, 5 groups that have rows and 3 that have none, matrices of 2048 x
    2048 in bfloat16, predicted:

         tm     tk     tn    visits     from and to HBM      v5e        v6e
        128    128    128        68             1174 MB   6629 us    6359 us
        512    512    512        20              369 MB    572 us     278 us
        512   1024   1024        20              285 MB    480 us     178 us
        256   2048   1024        36              143 MB    423 us     127 us
        128   2048   1024        68              143 MB    436 us     149 us

    Multiplying each row once is 69 Gflop: 349 us on a v5e, 75 us on a v6e. The
    fourth line reads each matrix once, x twice, and fills 12 of the 16 MB.

    The order of the grid's axes is yours as well. The steps of a sum have to
    follow each other, and so have the visits to a tile: whoever comes back to a
    tile finds a buffer without the rows that were stored in it. And of what can
    still be chosen, choose what lets the largest blocks stay longest.

    The number of visits is known only when the router has spoken; the rest of
    a program's sizes must be known when it is compiled. The tables are as long
    as they can ever need to be, and num_visits says how much of them is used.

Shapes
    name                dtype[dims]              memory space   Ref's shape
    group_offsets_ref   int32[G + 1]             SMEM           all of it
    group_ids_ref       int32[M / tm + G - 1]    SMEM           all of it
    m_tile_ids_ref      int32[M / tm + G - 1]    SMEM           all of it
    x_ref               x.dtype[M, K]            VMEM           (tm, tk)
    w_ref               x.dtype[G, K, N]         VMEM           (tk, tn)
    o_ref               x.dtype[M, N]            VMEM           (tm, tn)
    acc_ref             float32                  VMEM scratch   (tm, tn)

Try
    pytest -k launch_grouped_matmul          stuck?  kata hint launch_grouped_matmul
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Int32


def launch_grouped_matmul_spec(
    x: Float[Array, "M K"], w: Float[Array, "G K N"], group_sizes: Int32[Array, "G"]
) -> Float[Array, "M N"]:
    """What the kernel must compute, in plain jax.numpy: every row by every w, and its own kept."""
    M, G = len(x), len(w)
    group_of_row = jnp.repeat(jnp.arange(G), group_sizes, total_repeat_length=M)
    return jnp.take_along_axis(x @ w, group_of_row[None, :, None], axis=0)[0]


def launch_grouped_matmul_inputs(key, *, M, K, N, G, tm, pattern, dtype):
    """Sizes as routers make them: groups without rows, several in one tile, one large one."""
    x_key, w_key, cut_key = jax.random.split(key, 3)
    x = jax.random.normal(x_key, (M, K))
    w = jax.random.normal(w_key, (G, K, N))
    lowest = (1, 2 * tm, M // 2)[pattern]
    drawn = jax.random.randint(cut_key, (G - 1,), lowest, M).tolist()
    cuts = [row | 1 for row in sorted(drawn)]  # odd: inside a tile
    if pattern == 0:  # the first, the last and one between them have no rows
        cuts[0], cuts[G // 2], cuts[-1] = 0, cuts[G // 2 - 1], M
    if pattern == 1:  # three end in the first tile, the next at the end of the second
        cuts[:4] = tm // 8, tm // 2 + 3, tm - 1, 2 * tm
    group_sizes = jnp.diff(jnp.array([0, *cuts, M], jnp.int32))
    return x.astype(dtype), w.astype(dtype), group_sizes


def group_metadata(group_sizes, *, M, tm, visit_empty_groups=False):
    """Which group and which tile each visit is about. Given: it is group_metadata's, of kata 07."""
    G, T = len(group_sizes), M // tm
    group_offsets = jnp.cumulative_sum(group_sizes, include_initial=True)
    starts, ends = group_offsets[:-1], group_offsets[1:]
    empty = group_sizes == 0
    tiles_per_group = jnp.where(empty, visit_empty_groups, (ends + tm - 1) // tm - starts // tm)
    # A tile is visited once, and once more for each group that starts behind its first row.
    inside = jnp.where(empty, visit_empty_groups, starts % tm != 0)
    tile_visits = 1 + jnp.bincount(jnp.where(inside, starts // tm, T), length=T)
    V = T + G - 1
    group_ids = jnp.repeat(jnp.arange(G), tiles_per_group, total_repeat_length=V)
    m_tile_ids = jnp.repeat(jnp.arange(T), tile_visits, total_repeat_length=V)
    return group_offsets, group_ids, m_tile_ids, jnp.sum(tiles_per_group)


def launch_grouped_matmul_kernel(
    group_offsets_ref, group_ids_ref, m_tile_ids_ref, x_ref, w_ref, o_ref, acc_ref
):
    # BEGIN SOLUTION
    raise NotImplementedError(
        "sum over k, and store in the last k step the rows that belong to the visit's group"
    )
    # END SOLUTION


def launch_grouped_matmul(
    x: Float[Array, "M K"],
    w: Float[Array, "G K N"],
    group_sizes: Int32[Array, "G"],
    *,
    tm: int = 512,
    tk: int = 1024,
    tn: int = 1024,
) -> Float[Array, "M N"]:
    """Launch: yours to write. The tile sizes divide the dimensions."""
    M, K = x.shape
    _, _, N = w.shape
    group_offsets, group_ids, m_tile_ids, num_visits = group_metadata(group_sizes, M=M, tm=tm)

    # BEGIN SOLUTION
    raise NotImplementedError(
        "return pl.pallas_call(launch_grouped_matmul_kernel, ...)(...), with the three tables prefetched"
    )
    # END SOLUTION


def test_launch_grouped_matmul(hidden_case):
    hidden_case.grade(launch_grouped_matmul)
