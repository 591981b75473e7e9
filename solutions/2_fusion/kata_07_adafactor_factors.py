"""Average the squares of a gradient along its rows and its columns, in one read.

Goal
    Write the kernel that computes Adafactor's two factors: the mean of g * g over each
    row, and over each column. You also write the specs of both results, and say which
    axes of the grid may run in any order.

Concept
    Adam keeps an average of the squared gradient for each parameter. Adafactor keeps
    one for each row and one for each column, M + N numbers instead of M * N, and
    multiplies two of them to get an element's average:

                      columns                      the average of g * g at (r, c)
                   ----------------  [1, N]        is taken to be
            rows  |                |               rows[r] * columns[c] / mean
            [M,1] |   g * g        |
                  |                |               8192 x 4096: 12 thousand numbers
                  ------------------               in place of 34 million

    These are two reductions of the same squares, one along each axis. The 64 MiB of
    such a g in bfloat16 take 82 µs on a v5e, and two kernels would read them twice. XLA
    fuses the two and reads g once, like your kernel. In a kernel, you can rely on that,
    and scale or clip g in the same pass.

    The steps run along a row of blocks, then along the next. The two results see this
    order differently:

        steps                0,0  0,1  0,2  0,3  1,0  1,1  1,2  1,3
        block of rows         0    0    0    0    1    1    1    1
        block of columns      0    1    2    3    0    1    2    3

    A block of rows is summed in consecutive steps. It then leaves VMEM, complete. A
    block of columns would return later, and an output must not: it isn't read back from
    HBM. So the output of columns has to be one block, of all columns, which stays in
    VMEM for the whole grid: 16 KiB. Each step adds to its part,
    `columns_ref[:, pl.ds(start, size)]`, where `pl.multiple_of(start, 128)` promises
    that a part begins with a whole register.

    Steps that add to the same numbers depend on each other. A chip with two TensorCores
    splits a "parallel" axis between them; each core would have its own output in VMEM,
    and both would be written to the same place in HBM. Check for each axis whether two
    steps along it share a sum.

    The last block of rows may extend past the end of g. The numbers there aren't zero,
    and would be added to the columns.

Shapes
    name          dtype[dims]     memory space   Ref's shape   block
    g_ref         g.dtype[M, N]   VMEM           (bm, bn)      (i, j)
    rows_ref      float32[M, 1]   VMEM           (bm, 1)       yours
    columns_ref   float32[1, N]   VMEM           (1, N)        yours

    The grid is (M / bm, N / bn), rounded up. bn divides N and is a multiple of 128.

Try
    pytest -k adafactor_factors          stuck?  kata hint adafactor_factors

Needs     row_sum, ragged_tail, right_on_one_core
Read on   Adafactor, https://arxiv.org/abs/1804.04235
"""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Float32


def adafactor_factors_spec(
    g: Float[Array, "M N"],
) -> tuple[Float32[Array, "M 1"], Float32[Array, "1 N"]]:
    """The required result, in plain jax.numpy."""
    squares = jnp.square(g.astype(jnp.promote_types(g.dtype, jnp.float32)))
    return jnp.mean(squares, axis=1, keepdims=True), jnp.mean(squares, axis=0, keepdims=True)


def adafactor_factors_kernel(g_ref, rows_ref, columns_ref, *, M):
    (bm, bn), N = g_ref.shape, columns_ref.shape[1]
    i, j = pl.program_id(0), pl.program_id(1)
    # BEGIN SOLUTION
    columns = pl.ds(pl.multiple_of(j * bn, 128), bn)

    @pl.when(j == 0)
    def _():
        rows_ref[...] = jnp.zeros_like(rows_ref)

    @pl.when(i == 0)
    def _():
        columns_ref[:, columns] = jnp.zeros((1, bn), jnp.float32)

    g = g_ref[...].astype(jnp.float32)
    row = i * bm + jax.lax.broadcasted_iota(jnp.int32, g.shape, 0)
    squares = jnp.where(row < M, g * g, 0)
    rows_ref[...] += jnp.sum(squares, axis=1, keepdims=True) / N
    columns_ref[:, columns] += jnp.sum(squares, axis=0, keepdims=True) / M
    # END SOLUTION


def adafactor_factors(
    g: Float[Array, "M N"], *, bm: int = 256, bn: int = 1024
) -> tuple[Float32[Array, "M 1"], Float32[Array, "1 N"]]:
    """Launch: one pass over g in blocks of (bm, bn)."""
    M, N = g.shape
    # BEGIN SOLUTION
    rows_spec = pl.BlockSpec((bm, 1), lambda i, j: (i, 0))
    columns_spec = pl.BlockSpec((1, N), lambda i, j: (0, 0))
    dimension_semantics = ("arbitrary", "arbitrary")
    # END SOLUTION
    return pl.pallas_call(
        functools.partial(adafactor_factors_kernel, M=M),
        grid=(pl.cdiv(M, bm), N // bn),
        in_specs=[pl.BlockSpec((bm, bn), lambda i, j: (i, j))],
        out_specs=(rows_spec, columns_spec),
        out_shape=(
            jax.ShapeDtypeStruct((M, 1), jnp.float32),
            jax.ShapeDtypeStruct((1, N), jnp.float32),
        ),
        compiler_params=pltpu.CompilerParams(dimension_semantics=dimension_semantics),
        name="adafactor_factors",
    )(g)


# ---- Given: inputs and helpers. ----


def adafactor_factors_inputs(key, *, M, N, dtype):
    """Gradients of a different size in each row and column."""
    g_key, row_key, column_key = jax.random.split(key, 3)
    row = jax.random.uniform(row_key, (M, 1), minval=0.5, maxval=2)
    column = jax.random.uniform(column_key, (1, N), minval=0.5, maxval=2)
    return ((jax.random.normal(g_key, (M, N)) * row * column).astype(dtype),)


def test_adafactor_factors(hidden_case):
    hidden_case.grade(adafactor_factors)
