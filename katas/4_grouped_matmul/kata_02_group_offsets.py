"""Turn group sizes into the rows where the groups begin.

Goal
    Write group_offsets: from G group sizes, compute the G + 1 row numbers that
    mark where the groups begin and end. There is no kernel this time; this is
    plain jax.numpy, run under jax.jit.

Concept
    A mixture of experts sends each row of x, a token, to one of G experts. Once the
    rows are sorted by expert, row r has to be multiplied by the weights of its group.
    The kernel at the end of this track does that tile by tile. It receives tables that
    describe the groups by scalar prefetch, as permuted_matmul received its order. This
    kata and the next five make these tables from the router's only output, the number
    of rows per group:

        group_sizes   = [3, 6, 0, 7, 4]                         G = 5, M = 20

        row             0     3           9             16      20
        group           |  0  |     1     |      3      |   4   |
                        0     3           9             16      20
                                          9 (group 2 is empty)
        group_offsets = [0, 3, 9, 9, 16, 20]

    Group g consists of the rows from group_offsets[g] up to, but not including,
    group_offsets[g + 1]. One group ends where the next one begins, so G + 1
    numbers describe all groups, and the last group needs no special case. An
    empty group begins where it ends. The CSR format for sparse matrices uses
    the same kind of list and calls it the row pointers.

    In each visit, the kernel's body reads two of the offsets, so that it stores
    only the group's own rows (masked_store). Group 1 has rows in three tiles:

        rows of the tile      0  1  2  3 |  4  5  6  7 |  8  9 10 11
        3 <= row < 9                   x |  x  x  x  x |  x

    Why not use numpy, before the launch? Because the host doesn't know the sizes. The
    router has computed them on the device, in the same program. To read them, the host
    would have to wait for the device and copy them, and the device would sit idle
    until the host replies, in every layer. Under jit, the device doesn't wait. In
    return, every shape must be known when the program is compiled, because shapes are
    part of the compiled program. G is known: it is the number of experts. The sizes
    themselves can be any numbers.

    The tables are int32 throughout, because SMEM and the scalar unit work with
    32-bit words. Remember which dtype jax.numpy returns when it combines an
    int32 array with a float32 array.

Shapes
    name          dtype[dims]    memory space   Ref's shape   block
    group_sizes   int32[G]       HBM            -             -
    result        int32[G + 1]   HBM            -             -

    Sizes are not negative, and sum to M. The first offset is 0, the last is M.

Try
    pytest -k group_offsets          stuck?  kata hint group_offsets

Needs     permuted_matmul
Read on   MegaBlocks, https://arxiv.org/abs/2211.15841
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int32


def group_offsets_spec(group_sizes: Int32[Array, "G"]) -> Int32[Array, "G+1"]:
    """What to return, computed the long way: each offset is the sum of all sizes before it."""
    G = len(group_sizes)
    earlier = jnp.arange(G)[None, :] < jnp.arange(G + 1)[:, None]
    return jnp.sum(jnp.where(earlier, group_sizes, 0), axis=1, dtype=jnp.int32)


def group_offsets(group_sizes: Int32[Array, "G"]) -> Int32[Array, "G+1"]:
    """Return the first row of each group, followed by M."""
    # BEGIN SOLUTION
    raise NotImplementedError(
        "return the G + 1 group_offsets: 0, then where each group ends"
    )
    # END SOLUTION


# ---- Given: inputs and helpers. ----


def group_offsets_inputs(key, *, G, M, tm, pattern, dtype):
    """G sizes that sum to M. `pattern` says where the cuts between the groups are."""
    cuts = sorted(jax.random.randint(key, (G - 1,), 0, M).tolist())
    odd = [cut | 1 for cut in cuts]
    offsets = {
        0: [0, *cuts, M],  # anywhere
        1: [0, *(cut // tm * tm for cut in cuts), M],  # on the edges of tiles
        2: [0, *sorted(M // tm // 2 * tm + cut % tm for cut in cuts), M],  # all within one tile
        # inside tiles; the first group, one in the middle, and the last are empty
        3: [0, 0, *odd[1 : G // 2], *odd[G // 2 - 1 : -2], M, M],
        4: [0 if g <= sum(cuts) % G else M for g in range(G)] + [M],  # one group has all rows
    }[pattern]
    return (jnp.diff(jnp.array(offsets, jnp.int32)),)


def test_group_offsets(hidden_case):
    hidden_case.grade(group_offsets)
