"""Say in one imperative line what the kernel does.

Goal
    What the kernel must do, in the reader's terms.

Concept
    The one new idea: why it exists, what the hardware does, with a picture where space or time is
    involved and true numbers. 20 to 60 lines for the whole docstring; no spoiler.

Shapes
    name    dtype[dims]     memory space   Ref's shape   block
    x_ref   x.dtype[M, N]   VMEM           (bm, N)       (i, 0)
    o_ref   x.dtype[M, N]   VMEM           (bm, N)       (i, 0)

Try
    pytest -k bf16_accumulate          stuck?  kata hint bf16_accumulate

Needs     name the katas that this one builds on
Read on   one page or paper, by name, with its URL
"""

import jax
from jax.experimental import pallas as pl
from jaxtyping import Array, Float


def bf16_accumulate_spec(x: Float[Array, "M N"]) -> Float[Array, "M N"]:
    """What the kernel must compute, in plain jax.numpy."""
    # write over this
    return x * 2


def bf16_accumulate_kernel(x_ref, o_ref):
    # BEGIN SOLUTION
    o_ref[...] = x_ref[...] + 2  # the wrong code that is to be repaired
    # END SOLUTION


def bf16_accumulate(x: Float[Array, "M N"], *, bm: int = 128) -> Float[Array, "M N"]:
    """Launch: one grid step for each block of bm rows."""
    rows = pl.BlockSpec((bm, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        bf16_accumulate_kernel,
        grid=(x.shape[0] // bm,),
        in_specs=[rows],
        out_specs=rows,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
    )(x)


def test_bf16_accumulate(hidden_case):
    hidden_case.grade(bf16_accumulate)
