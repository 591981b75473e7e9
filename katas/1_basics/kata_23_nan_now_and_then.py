"""Find out why a colleague's matmul sometimes returns NaN, and repair it.

Goal
    The kernel below multiplies matrices for any K, even if bk doesn't divide it. Its tests
    pass on a CPU. On a TPU it was right for weeks, in hundreds of runs. Then, with the same
    code and the same shapes, a few runs returned NaN, and the next ones were right again.
    Repair it. Results that were Inf must stay Inf: such rows show that a model has diverged.

Concept
    Three tools show you a kernel, from the inside out:

        pl.debug_print("k={} x={}", k, x_ref[0, 0])
            prints from inside the body, in every grid step. Print the
            values that a step reads, not only its results.
        kata view nan_now_and_then
            draws which block of each operand a step sees, where it lies in its
            array, and which elements of the result are wrong.
        kata cost nan_now_and_then
            shows bytes, time and what bounds it, and what a repair costs.

    A symptom that comes and goes is rarely random. The kernel's instructions are the same in
    each run, and so are its inputs' shapes. So something else must differ: which unwritten
    memory does it read? List all memory that the body reads in one step, and who wrote each
    part of it:

        read by the body         written by
        x_ref, w_ref             the copy from HBM, inside the array
        acc_ref                  the body, in an earlier step
        the rest of a block      nobody: whatever lay in VMEM before

    On a TPU, the rest of a block mostly holds the finite numbers of an earlier block. But
    sometimes it holds another kernel's integers, which can be anything when read as floats.
    In your colleague's tests on the CPU, K was a multiple of bk.

    Then follow such an element through the arithmetic, with NaN, with Inf and with 1e30 in
    its place. Which operations remove it, and which only seem to? A repair is complete if no
    value in that memory can reach the result. It goes too far if it also changes values that
    really are in x or w.

Shapes
    name      dtype[dims]       memory space   Ref's shape   block
    x_ref     x.dtype[M, K]     VMEM           (bm, bk)      (i, k)
    w_ref     x.dtype[K, N]     VMEM           (bk, bn)      (k, j)
    o_ref     float32[M, N]     VMEM           (bm, bn)      (i, j)
    acc_ref   float32[bm, bn]   VMEM scratch   (bm, bn)      -

    The grid is (M / bm, N / bn, pl.cdiv(K, bk)). n is K, a Python int.

Try
    pytest -k nan_now_and_then           stuck?  kata hint nan_now_and_then

Needs     ragged_tail, tiled_matmul
Read on   Grids and BlockSpecs, https://docs.jax.dev/en/latest/pallas/grid_blockspec.html
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Float32


def nan_now_and_then_spec(x: Float[Array, "M K"], w: Float[Array, "K N"]) -> Float32[Array, "M N"]:
    """The required result, in plain jax.numpy."""
    return jnp.dot(x, w, preferred_element_type=jnp.promote_types(x.dtype, jnp.float32))


def nan_now_and_then_kernel(x_ref, w_ref, o_ref, acc_ref, *, n):
    @pl.when(pl.program_id(2) == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    # BEGIN SOLUTION
    column = pl.program_id(2) * x_ref.shape[1] + jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 1)
    inside = (column < n).astype(x_ref.dtype)
    acc_ref[...] += jnp.dot(x_ref[...] * inside, w_ref[...], preferred_element_type=jnp.float32)
    # END SOLUTION

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _():
        o_ref[...] = acc_ref[...]


def nan_now_and_then(
    x: Float[Array, "M K"], w: Float[Array, "K N"], *, bm: int = 256, bn: int = 256, bk: int = 512
) -> Float32[Array, "M N"]:
    """Launch: the last block of K may extend past the edges of x and w."""
    M, K = x.shape
    N = w.shape[1]
    return pl.pallas_call(
        lambda x_ref, w_ref, o_ref, acc_ref: nan_now_and_then_kernel(
            x_ref, w_ref, o_ref, acc_ref, n=K
        ),
        grid=(M // bm, N // bn, pl.cdiv(K, bk)),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)),
            pl.BlockSpec((bk, bn), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((M, N), jnp.float32),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary")
        ),
        name="nan_now_and_then",
    )(x, w)


# ---- Given: inputs and helpers. ----


def nan_now_and_then_inputs(key, *, M, N, K, dtype):
    """Random numbers, and one row of x that has overflowed."""
    x_key, w_key = jax.random.split(key)
    x = jax.random.normal(x_key, (M, K)).at[M // 3, K // 2].set(jnp.inf)
    w = jax.random.normal(w_key, (K, N))
    return x.astype(dtype), w.astype(dtype)


def test_nan_now_and_then(hidden_case):
    hidden_case.grade(nan_now_and_then)
