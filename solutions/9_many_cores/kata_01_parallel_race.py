"""Find out why a sum loses terms as soon as two cores share its grid.

Goal
    The kernel below sums the squares of all elements of a gradient, to clip its norm
    in training. A colleague wanted to use both TensorCores of a v5p and marked the
    grid's only axis "parallel". On a v5e, which has one core, all tests still pass. On
    a v5p the sum is too small, and the error varies. Repair the kernel so that both
    cores still share the work.

Concept
    In right_on_one_core, a core needed data that only the other core had in its
    memory. Here the problem is the output. Each core has an o_ref in its own VMEM, and
    both are copies of one block of the result:

        core 0   o_ref: sum of the steps that it took  - - - +
                                                             +- - > o, in HBM
        core 1   o_ref: sum of the steps that it took  - - - +

    Nobody adds the two sums. HBM keeps the one that is written last, or a mixture of
    both. That is a race: two cores access the same memory, at least one of them writes,
    and nothing orders the accesses. The grader's interpreter has two cores. It checks
    the order of accesses, not the numbers, so it finds a race even if a run happens to
    give the right sum.

    Take two steps that may run on different cores, and compare their blocks of the
    result. An axis may be parallel only if its steps write different blocks. If steps
    add to the same block, their axis must be arbitrary: one core takes them all, in
    order.

    One axis can't be both. But the blocks of x need not follow a single grid axis: an
    index map may compute a block's number from two indices. The cores' sums are added
    after the kernel, when both cores have finished. That line is given, below yours.

    It is tempting to write "arbitrary". The sum is then right, but one core does all
    the work: for 16384 x 4096 numbers in bfloat16, that takes 71 µs on a v5p, and a
    good repair 50 µs. A v5e has one core, so this kata is graded for a v5p.

Shapes
    name    dtype[dims]          memory space   Ref's shape   block
    x_ref   x.dtype[M, N]        VMEM           (bm, N)       yours
    o_ref   float32[o_rows, N]   VMEM           (8, N)        yours

    o_ref has eight rows, like a register. M is a multiple of 2 * bm.

Try
    pytest -k parallel_race          stuck?  kata hint parallel_race

Needs     row_sum, right_on_one_core
Read on   TPU Pipelining, https://docs.jax.dev/en/latest/pallas/tpu/pipelining.html
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Float32


def parallel_race_spec(x: Float[Array, "M N"]) -> Float32[Array, "1 1"]:
    """The required result, in plain jax.numpy."""
    x = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    return jnp.sum(x * x).reshape(1, 1)


def parallel_race(x: Float[Array, "M N"], *, bm: int = 512) -> Float32[Array, "1 1"]:
    """Sum the squares of all elements, bm rows in each step."""
    M, N = x.shape
    # BEGIN SOLUTION
    cores = 2
    steps = M // bm // cores
    grid = (cores, steps)
    x_spec = pl.BlockSpec((bm, N), lambda core, i: (core * steps + i, 0))
    o_spec = pl.BlockSpec((8, N), lambda core, i: (core, 0))
    o_rows = 8 * cores
    dimension_semantics = ("parallel", "arbitrary")

    def kernel(x_ref, o_ref):
        @pl.when(pl.program_id(1) == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        x = x_ref[...].astype(jnp.float32)
        o_ref[...] += jnp.sum((x * x).reshape(-1, 8, N), axis=0)

    # END SOLUTION
    sums = pl.pallas_call(
        kernel,
        grid=grid,
        in_specs=[x_spec],
        out_specs=o_spec,
        out_shape=jax.ShapeDtypeStruct((o_rows, N), jnp.float32),
        compiler_params=pltpu.CompilerParams(dimension_semantics=dimension_semantics),
        name="parallel_race",
    )(x)
    return jnp.sum(sums).reshape(1, 1)


# ---- Given: inputs and helpers. ----


def parallel_race_inputs(key, *, M, N, dtype):
    """Numbers of many sizes. In bfloat16, each of their squares would lose 1/370 of its value."""
    sign, power = jax.random.split(key)
    powers = jnp.exp2(jax.random.randint(power, (M, N), -2, 3).astype(jnp.float32))
    return ((jax.random.rademacher(sign, (M, N)) * powers * 135 / 128).astype(dtype),)


def test_parallel_race(hidden_case):
    hidden_case.grade(parallel_race)
