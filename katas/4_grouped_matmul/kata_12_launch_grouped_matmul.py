"""Write a grouped matmul around its tables: kernel, grid, BlockSpecs and launch.

Goal
    Write the kernel and the launch of a grouped matmul. The rows of x are
    sorted by group; group g has group_sizes[g] rows, which are multiplied by
    w[g]. The function group_metadata, which makes the tables from group_sizes,
    is given. tm, tk and tn divide M, K and N.

Concept
    How large should the tiles be? Four things matter.

    - A tile that several groups share is multiplied once for each of them. That
      wastes up to tm rows per group, a reason for a small tm.
    - Blocks of w are fetched again at each visit, M / tm times or more. That is
      a reason for a large tm, or for tk = K, since a block of w then stays in
      VMEM until j or the group changes.
    - x is fetched once for each of the N / tn blocks of columns, a reason for a
      large tn.
    - Short steps can't hide the time to start a copy, and large blocks must fit
      into the 16 MiB of VMEM that a kernel gets on a v5e by default.

    Predicted for 8192 rows, 5 groups that have rows, 3 groups that have none,
    and matrices of 2048 x 2048 in bfloat16:

         tm     tk     tn    visits     HBM traffic          v5e        v6e
        128    128    128        68        1120 MiB      6629 µs    6504 µs
        512    512    512        20         352 MiB       572 µs     284 µs
        512   1024   1024        20         272 MiB       480 µs     180 µs
        256   2048   1024        36         136 MiB       423 µs     128 µs
        128   2048   1024        68         136 MiB       436 µs     149 µs

    Multiplying each row once takes 69 Gflop: 349 µs on a v5e, 75 µs on a v6e.
    With the tiles of the fourth line, the kernel reads each matrix once and x
    twice, and it uses 12 of the 16 MiB of VMEM.

    You also choose the order of the grid's axes. The steps of a sum must follow each
    other, and so must the visits to a tile: a visit that returns to a tile later finds
    a buffer without the rows that were stored in it before. Of the remaining orders,
    choose the one that keeps the largest blocks in VMEM for the longest time.

    The number of visits is known only after the router has run, but the shapes
    in a program must be known when it is compiled. The tables are as long as
    they can ever need to be, and num_visits says how much of them is used.

Shapes
    name                            dtype[dims]        memory space   Ref's shape   block
    group_offsets_ref               int32[G + 1]       SMEM           (G + 1,)      whole
    group_ids_ref, m_tile_ids_ref   int32[V]           SMEM           (V,)          whole
    x_ref                           x.dtype[M, K]      VMEM           (tm, tk)      yours
    w_ref                           x.dtype[G, K, N]   VMEM           (tk, tn)      yours
    o_ref                           x.dtype[M, N]      VMEM           (tm, tn)      yours
    acc_ref                         float32[tm, tn]    VMEM scratch   (tm, tn)      -

Try
    pytest -k launch_grouped_matmul          stuck?  kata hint launch_grouped_matmul

Needs     ragged_grouped_matmul, launch_masked_store
Read on   jax.lax.ragged_dot, https://docs.jax.dev/en/latest/_autosummary/jax.lax.ragged_dot.html
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Int32


def launch_grouped_matmul_spec(
    x: Float[Array, "M K"], w: Float[Array, "G K N"], group_sizes: Int32[Array, "G"]
) -> Float[Array, "M N"]:
    """The required result, in plain jax.numpy: x @ w for every w, then pick each row's."""
    M, G = len(x), len(w)
    group_of_row = jnp.repeat(jnp.arange(G), group_sizes, total_repeat_length=M)
    return jnp.take_along_axis(x @ w, group_of_row[None, :, None], axis=0)[0]


def launch_grouped_matmul_kernel(
    group_offsets_ref, group_ids_ref, m_tile_ids_ref, x_ref, w_ref, o_ref, acc_ref
):
    # BEGIN SOLUTION
    raise NotImplementedError(
        "sum over k; in the last k step, store the rows that belong to the visit's group"
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


# ---- Given: inputs and helpers. ----


def launch_grouped_matmul_inputs(key, *, M, K, N, G, tm, pattern, dtype):
    """Group sizes like a router's: empty groups, several groups in one tile, one large group."""
    x_key, w_key, cut_key = jax.random.split(key, 3)
    x = jax.random.normal(x_key, (M, K))
    w = jax.random.normal(w_key, (G, K, N))
    lowest = (1, 2 * tm, M // 2)[pattern]
    drawn = jax.random.randint(cut_key, (G - 1,), lowest, M).tolist()
    cuts = [row | 1 for row in sorted(drawn)]  # odd: inside a tile
    if pattern == 0:  # the first, the last, and one in between have no rows
        cuts[0], cuts[G // 2], cuts[-1] = 0, cuts[G // 2 - 1], M
    if pattern == 1:  # three groups end in the first tile, the fourth at the end of the second
        cuts[:4] = tm // 8, tm // 2 + 3, tm - 1, 2 * tm
    group_sizes = jnp.diff(jnp.array([0, *cuts, M], jnp.int32))
    return x.astype(dtype), w.astype(dtype), group_sizes


def group_metadata(group_sizes, *, M, tm, visit_empty_groups=False):
    """List the group and tile of each visit, like group_metadata, or also of empty groups."""
    G, T = len(group_sizes), M // tm
    group_offsets = jnp.cumulative_sum(group_sizes, include_initial=True)
    starts, ends = group_offsets[:-1], group_offsets[1:]
    empty = group_sizes == 0
    tiles_per_group = jnp.where(empty, visit_empty_groups, (ends + tm - 1) // tm - starts // tm)
    # A tile is visited once, and once more for each group that starts after its first row.
    inside = jnp.where(empty, visit_empty_groups, starts % tm != 0)
    tile_visits = 1 + jnp.bincount(jnp.where(inside, starts // tm, T), length=T)
    V = T + G - 1
    group_ids = jnp.repeat(jnp.arange(G), tiles_per_group, total_repeat_length=V)
    m_tile_ids = jnp.repeat(jnp.arange(T), tile_visits, total_repeat_length=V)
    return group_offsets, group_ids, m_tile_ids, jnp.sum(tiles_per_group)


def test_launch_grouped_matmul(hidden_case):
    hidden_case.grade(launch_grouped_matmul)
