"""Sum the rows of a matrix whose sizes the blocks do not divide.

Goal
    Write the row sums once more, now for any M and N. The launch is given: its
    grid is rounded up, so the last blocks may reach past the edges of x. Your
    body is told n, the number of columns that are real.

Concept
    N // bn blocks would leave a tail of columns unread. `pl.cdiv` divides and
    rounds up, so that the tail gets a block too. With N = 300 and bn = 128:

        column   0           128          256     300       384
                 |  block 0   |  block 1   |  block 2        |
                 |..... x ....|..... x ....|.. x ..|?????????|
                                                   ^
                                              edge of x

    A kernel is compiled once, for one block shape, so x_ref is bn wide in the
    last step as well. The copy from HBM fills the part that exists. What is
    past the edge is undefined: most often it is left over from an earlier
    block, and then the sums look plausible and are wrong. The strict
    interpreter that grades you puts NaN there, so that no luck can help.

    The two edges of x behave differently:

                  x_ref              o_ref
               +-------+---+         +---+
               | real  | ? |  -----> |   |   real sums, if the ? are kept out
               |       | ? |         |   |
        -------+-------+---+- edge --+---+--------------------------------
               | ? ? ? | ? |  -----> | ? |   cut off on the way to HBM
               +-------+---+         +---+

    Past the bottom edge, garbage rows make garbage sums, but in rows that the
    result does not have. They never reach HBM. Past the right edge, garbage
    would go into the sums of real rows, and that is yours to prevent.

    To tell real columns from the rest, number them.

        jax.lax.broadcasted_iota(dtype, shape, dimension)

    makes an array of that shape whose elements count 0, 1, 2, ... along that
    dimension. It counts within the block and knows nothing of the grid.

    `jnp.where(condition, a, b)` picks element by element. It really picks: a
    NaN that is not picked is gone, whereas NaN * 0 is still NaN.

    The arithmetic is next to free. HBM feeds a v5e one register of data (4 KB)
    in 7.5 cycles, and in that time the vector unit can do far more to it.

Shapes
    name     dtype[dims]     memory space   block
    x_ref    x.dtype[M, N]   VMEM           (bm, bn)
    o_ref    float32[M, 1]   VMEM           (bm, 1)
    n        a Python int    -              N

    The grid is (pl.cdiv(M, bm), pl.cdiv(N, bn)).

Try
    pytest -k ragged_tail           stuck?  kata hint ragged_tail
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Float32


def ragged_tail_spec(x: Float[Array, "M N"]) -> Float32[Array, "M 1"]:
    """What the kernel must compute, in plain jax.numpy."""
    return jnp.sum(x, axis=1, keepdims=True, dtype=jnp.promote_types(x.dtype, jnp.float32))


def ragged_tail_kernel(x_ref, o_ref, *, n):
    @pl.when(pl.program_id(1) == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    # BEGIN SOLUTION
    bn = x_ref.shape[1]
    column = pl.program_id(1) * bn + jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 1)
    x = jnp.where(column < n, x_ref[...], 0)
    o_ref[...] += jnp.sum(x, axis=1, keepdims=True, dtype=jnp.float32)
    # END SOLUTION


def ragged_tail(x: Float[Array, "M N"], *, bm: int = 256, bn: int = 1024) -> Float32[Array, "M 1"]:
    """Launch: a grid that is rounded up, so that blocks cover all of x and a little more."""
    M, N = x.shape
    return pl.pallas_call(
        lambda x_ref, o_ref: ragged_tail_kernel(x_ref, o_ref, n=N),
        grid=(pl.cdiv(M, bm), pl.cdiv(N, bn)),
        in_specs=[pl.BlockSpec((bm, bn), lambda i, j: (i, j))],
        out_specs=pl.BlockSpec((bm, 1), lambda i, j: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((M, 1), jnp.float32),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
        name="ragged_tail",
    )(x)


def test_ragged_tail(hidden_case):
    hidden_case.grade(ragged_tail)
