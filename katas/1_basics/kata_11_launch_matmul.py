"""Launch a tiled matmul: grid, blocks, scratch and dimension semantics.

Goal
    The kernel of tiled_matmul is given. Write everything around it: the whole
    `pl.pallas_call`, for blocks of bm x bk, bk x bn and bm x bn.

Concept
    A launch answers five questions. You have written three of the answers
    before: how often the body runs (grid), what it sees in each step
    (BlockSpecs), and what comes out (out_shape). Here are the other two.

    *What memory does it need besides?* scratch_shapes is a list that describes
    it; `pltpu.VMEM((8, 128), jnp.int32)` would be 8 x 128 integers. The body
    receives one more Ref for each entry. Scratch is not cut out of any array,
    so it has no BlockSpec: its shape is the shape of the Ref.

    *Which steps need each other?* One word for each grid axis, given as
    compiler_params=pltpu.CompilerParams(dimension_semantics=(...)):

        "parallel"    a step needs nothing from its neighbours along this axis;
                      they may run in any order, or on two cores at a time
        "arbitrary"   it needs what the step before left behind: keep the order

    The chips v4 and v5p have two cores that share the steps of a "parallel"
    axis. Say nothing, and all is "arbitrary": half of such a chip idles. Say
    "parallel" where it isn't true, and the result is right on a v5e, which has
    one core, and wrong elsewhere. The interpreter that grades you has two.

    A word on block sizes. A step multiplies bm x bk by bk x bn: that takes
    2 bm bn bk flops, and (bm + bn) bk numbers of 2 bytes from HBM. A v5e does
    197 Tflop/s and 819 GB/s, so it starves below 240 flops for each byte:

        bm x bn        flops per byte      matrix unit busy, at best
        128 x 128             64           27 %
        256 x 256            128           53 %
        512 x 512            256          100 %

    Starting a copy takes time too, and short steps can't hide it: simulated,
    4096 x 4096 x 4096 takes 11.6 ms in blocks of 128 and 0.9 ms in blocks of 512.

    Large blocks must fit, however. With 512 for all three, bfloat16 takes

        x: 2 * 0.5 MB    y: 2 * 0.5 MB    o: 2 * 0.5 MB    acc: 1 MB

    which makes 4 of the 16 MB of VMEM that a v5e kernel gets unless it asks for
    more. Twice, for while one block is multiplied the next is being fetched.

Shapes
    name      dtype[dims]       memory space   block
    x_ref     x.dtype[M, K]     VMEM           (bm, bk)
    y_ref     x.dtype[K, N]     VMEM           (bk, bn)
    o_ref     x.dtype[M, N]     VMEM           (bm, bn)
    acc_ref   float32           VMEM scratch   (bm, bn)

Try
    pytest -k launch_matmul         stuck?  kata hint launch_matmul
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float


def launch_matmul_spec(x: Float[Array, "M K"], y: Float[Array, "K N"]) -> Float[Array, "M N"]:
    """What the kernel must compute, in plain jax.numpy."""
    return x @ y


def launch_matmul_kernel(x_ref, y_ref, o_ref, acc_ref):
    @pl.when(pl.program_id(2) == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _():
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)


def launch_matmul(
    x: Float[Array, "M K"], y: Float[Array, "K N"], *, bm: int = 512, bn: int = 512, bk: int = 512
) -> Float[Array, "M N"]:
    """Launch: yours to write. The block sizes divide the dimensions."""
    M, K = x.shape
    _, N = y.shape
    # BEGIN SOLUTION
    raise NotImplementedError("return pl.pallas_call(launch_matmul_kernel, ...)(x, y)")
    # END SOLUTION


def test_launch_matmul(hidden_case):
    hidden_case.grade(launch_matmul)
