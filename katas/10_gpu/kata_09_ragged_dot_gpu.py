"""Multiply each group of rows by its own weights, as a mixture of experts does.

Goal
    Write the kernel of jax.lax.ragged_dot: row r of x belongs to one of E groups, and
    is multiplied by that group's weights. Rows after the last group become 0. The
    launch is given, and so are the tables, which assign the work to blocks.

Concept
    A router sorts tokens by expert. The number of tokens per expert is known only on the
    GPU, and groups may end at any row. But the grid is fixed before the launch, in blocks
    of bm rows. So the work is a list of *visits*: a visit is one group in one block of
    rows. Here bm = 64, and the groups have 37, 0, 60 and 50 of 192 rows:

        row      0        37        64        97       128       147      192
        group    |   0    |    2    |    2    |    3    |    3    |  none  |
        block    0 ---------------- 1 ----------------- 2 ----------------
        visit        0         1         2         3         4        5

        groups_gmem   0  2  2  3  3  4  5      one entry for each visit
        blocks_gmem   0  0  1  1  2  2  0
        offsets_gmem  0  37  37  97  147  192  192

    Group g has the rows from offsets_gmem[g] up to offsets_gmem[g + 1]. An empty group
    has no visit. Rows of no group form an extra group, number E = 4, which has no
    weights. E + 1 groups need at most M / bm + E visits, so that is the grid's size.
    Unused visits, like the seventh here, belong to group E + 1, which has no rows.

    A table is read like any other Ref: `groups_gmem[visit]` is a scalar. It may choose
    weights, a box, a number of steps, and whether something happens at all.

    x is loaded in whole boxes. Multiplying the neighbours' rows too costs nothing more,
    but don't store them: another block does, perhaps at the same time. TMA stores a box
    at any row, but the size of a box must be known at compile time. So store boxes of 2^n
    rows, one after another: 45 rows are

        32 rows  |  8 rows  |  4 rows  |  1 row           45 = 0b101101

    For that, o_smem isn't tiled: a box may begin at any of its rows.

    With 8 groups, 8192 rows, K = N = 4096 and bm = 128, there are at most 72 visits, for
    64 blocks of rows. Multiplying all rows by all weights would be 8 times the work.

Shapes
    name           dtype[dims]           memory space   Ref's shape       block
    groups_gmem    int32[V]              GMEM           (V,)              whole
    blocks_gmem    int32[V]              GMEM           (V,)              whole
    offsets_gmem   int32[E + 3]          GMEM           (E + 3,)          whole
    x_gmem         x.dtype[M, K]         GMEM           (M, K)            yours
    w_gmem         x.dtype[E, K, N]      GMEM           (E, K, N)         yours
    o_gmem         x.dtype[M, N]         GMEM           (M, N)            yours
    x_smem         x.dtype[slots,bm,bk]  SMEM scratch   (slots, bm, bk)   -
    w_smem         x.dtype[slots,bk,bn]  SMEM scratch   (slots, bk, bn)   -
    o_smem         x.dtype[bm, bn]       SMEM scratch   (bm, bn)          -
    here           barrier[slots]        SMEM scratch   (slots,)          -

Try
    pytest -k ragged_dot_gpu          stuck?  kata hint ragged_dot_gpu

Needs     wgmma_matmul, pipelined_copy, group_metadata
Read on   MegaBlocks, https://arxiv.org/abs/2211.15841
"""

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jaxtyping import Array, Float, Int32


def ragged_dot_gpu_spec(
    x: Float[Array, "M K"], w: Float[Array, "E K N"], group_sizes: Int32[Array, "E"]
) -> Float[Array, "M N"]:
    """The required result, in plain jax.numpy: x @ w for every w, then pick each row's."""
    row, ends = jnp.arange(len(x))[:, None], jnp.cumsum(group_sizes)
    mine = (row >= ends - group_sizes) & (row < ends)
    return jnp.sum(jnp.where(mine.T[:, :, None], x @ w, 0), axis=0)


def ragged_dot_gpu_kernel(
    groups_gmem, blocks_gmem, offsets_gmem, x_gmem, w_gmem, o_gmem, x_smem, w_smem, o_smem, here
):
    """Compute one visit, for bn columns."""
    (slots, bm, bk), bn = x_smem.shape, w_smem.shape[2]
    visit, columns = lax.axis_index("visit"), pl.ds(lax.axis_index("j") * bn, bn)

    # BEGIN SOLUTION
    raise NotImplementedError(
        "look up group and rows, multiply the box by the group's weights, and store the rows"
    )
    # END SOLUTION


def ragged_dot_gpu(
    x: Float[Array, "M K"],
    w: Float[Array, "E K N"],
    group_sizes: Int32[Array, "E"],
    *,
    bm=128,
    bn=128,
    bk=64,
    slots=4,
) -> Float[Array, "M N"]:
    """Launch: a block for each visit and each bn columns. Given."""
    (M, _), (E, _, N) = x.shape, w.shape
    layout = (plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128))
    return plgpu.kernel(
        ragged_dot_gpu_kernel,
        out_type=jax.ShapeDtypeStruct((M, N), x.dtype),
        scratch_types=(
            plgpu.SMEM((slots, bm, bk), x.dtype, transforms=layout),
            plgpu.SMEM((slots, bk, bn), x.dtype, transforms=layout),
            plgpu.SMEM((bm, bn), x.dtype),
            plgpu.Barrier(num_arrivals=2, num_barriers=slots),
        ),
        grid=(M // bm + E, N // bn),
        grid_names=("visit", "j"),
    )(*visits_of(group_sizes, M=M, bm=bm), x, w)


# ---- Given: inputs and helpers. ----


def visits_of(group_sizes, *, M, bm):
    """Return each visit's group and block of rows, and the row where each group begins."""
    groups, V = len(group_sizes) + 1, M // bm + len(group_sizes)
    ends = jnp.append(jnp.cumsum(group_sizes), M)
    offsets = jnp.concatenate([jnp.zeros(1, ends.dtype), ends, ends[-1:]])
    first, last = offsets[:-2] // bm, (ends + bm - 1) // bm
    visits_ended = jnp.cumsum(jnp.where(offsets[:-2] < ends, last - first, 0))
    visit = jnp.arange(V)
    group = jnp.searchsorted(visits_ended, visit, side="right")
    # A group's last visit is in its last block; earlier visits count back from there.
    block = jnp.where(group < groups, (last - visits_ended)[group] + visit, 0)
    return tuple(table.astype(jnp.int32) for table in (group, block, offsets))


def ragged_dot_gpu_inputs(key, *, M, K, N, E, bm, pattern, dtype):
    """Group sizes like a router's, with an empty group, and rows of no group."""
    x_key, w_key, cut_key = jax.random.split(key, 3)
    x = jax.random.normal(x_key, (M, K)).astype(dtype)
    w = jax.random.normal(w_key, (E, K, N)).astype(dtype)
    cuts = [cut | 1 for cut in jax.random.randint(cut_key, (E - 2,), 1, M - bm).tolist()]
    if pattern == 1:  # three groups end in the first block
        cuts[:3] = [bm // 4 + cuts[0] % 4, bm // 2 + 3, bm - 1 - cuts[1] % 4]
    end = M if pattern == 2 else M - bm // 2 - 1 - cuts[0] % 4
    edges = [0, *sorted(cuts), end]
    empty = (1, 0, E - 2)[pattern]
    edges.insert(empty, edges[empty])
    return x, w, jnp.diff(jnp.array(edges, jnp.int32))


def test_ragged_dot_gpu(hidden_case):
    hidden_case.grade(ragged_dot_gpu)
