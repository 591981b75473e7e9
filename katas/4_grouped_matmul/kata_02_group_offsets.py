"""Turn the sizes of groups into the rows where they begin.

Goal
    Write group_offsets: for G group sizes, the G + 1 rows between which the
    groups lie. No kernel this time; it is plain jax.numpy, run under jax.jit.

Concept
    A mixture of experts sends each row of x, a token, to one of G experts. Once
    the rows are sorted by expert, row r has to be multiplied with the weights
    of its group, and the kernel at the end of this track does that tile by
    tile. What it has to know about the groups, it gets by scalar prefetch, as
    permuted_matmul got its order. This kata and the next five make those tables
    from the one thing that the router tells, the number of rows per group:

        group_sizes   = [3, 6, 0, 7, 4]                         G = 5, M = 20

        row             0     3           9             16      20
        group           |  0  |     1     |      3      |   4   |
                        0     3           9             16      20
                                          9 (group 2 is empty)
        group_offsets = [0, 3, 9, 9, 16, 20]

    Group g is made of the rows from group_offsets[g] up to, but not including,
    group_offsets[g + 1]. One group ends where the next one begins, so G + 1
    numbers say both for all of them, and there is no case apart for the last
    group. An empty group begins where it ends. Sparse matrices are stored in
    the same way: their CSR format calls such a list its row pointers.

    Why not in numpy, before the launch? Because nobody on the host knows the
    sizes. The router has computed them on the device, in the same program. To
    ask for them would mean to wait until the device is there, to copy, and to
    leave it idle until the answer is back, in every layer. Under jit it goes
    on by itself; in return, each shape must be known when the program is
    compiled, since sizes of arrays are a part of it. G is known, being the
    number of experts. The numbers in the list may be anything.

    The tables are int32 throughout: that is the word of SMEM and of the scalar
    unit. Mind what jax.numpy makes of an int32 array beside a float32 one.

Shapes
    name           dtype[dims]
    group_sizes    int32[G]        not negative, their sum is M
    result         int32[G + 1]    0 first, M last

Try
    pytest -k group_offsets          stuck?  kata hint group_offsets
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int32


def group_offsets_spec(group_sizes: Int32[Array, "G"]) -> Int32[Array, "G+1"]:
    """What must come back, said the long way: each offset is the sum of all sizes before it."""
    G = len(group_sizes)
    earlier = jnp.arange(G)[None, :] < jnp.arange(G + 1)[:, None]
    return jnp.sum(jnp.where(earlier, group_sizes, 0), axis=1, dtype=jnp.int32)


def group_offsets_inputs(key, *, G, M, tm, pattern, dtype):
    """G sizes that sum to M. The pattern says where the cuts between the groups are."""
    cuts = sorted(jax.random.randint(key, (G - 1,), 0, M).tolist())
    odd = [cut | 1 for cut in cuts]
    offsets = {
        0: [0, *cuts, M],  # anywhere
        1: [0, *(cut // tm * tm for cut in cuts), M],  # on the edges of tiles
        2: [0, *sorted(M // tm // 2 * tm + cut % tm for cut in cuts), M],  # all within one tile
        # inside of tiles, with empty groups: the first, one in the middle, the last
        3: [0, 0, *odd[1 : G // 2], *odd[G // 2 - 1 : -2], M, M],
        4: [0 if g <= sum(cuts) % G else M for g in range(G)] + [M],  # one group has all rows
    }[pattern]
    return (jnp.diff(jnp.array(offsets, jnp.int32)),)


def group_offsets(group_sizes: Int32[Array, "G"]) -> Int32[Array, "G+1"]:
    """The first row of each group, and M."""
    # BEGIN SOLUTION
    raise NotImplementedError("return the G + 1 offsets: 0, then where each group ends")
    # END SOLUTION


def test_group_offsets(hidden_case):
    hidden_case.grade(group_offsets)
