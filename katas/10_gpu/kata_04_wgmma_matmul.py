"""Multiply on the tensor cores, from shared memory.

Goal
    Write the kernel of a matmul in float16 or bfloat16. Each block computes one box of
    the result, (bm, bn). In steps over K, it loads a box of a and of b, multiplies
    them on the tensor cores, and sums in float32. The launch is given.

Concept
    A Hopper SM multiplies with *wgmma*: one instruction of a whole warpgroup
    takes 64 rows of a, 8 to 256 columns of b, and 16 of K. Its operands are in SMEM,
    and it adds to an *accumulator* in the registers of the 128 threads:

                            b_smem  (bk, bn)
                           +------------+
                           |            |
        a_smem  (bm, bk)   +------------+
        +--------+         +------------+   warp 0 holds rows  0 .. 15
        |        |         | acc, f32   |   warp 1             16 .. 31
        |        |         | (bm, bn)   |   warp 2             32 .. 47
        +--------+         +------------+   warp 3             48 .. 63

    SMEM has 32 banks of 4 bytes. With rows of 128 bytes, eight 16-byte pieces in one
    column share banks, and would be read one after the other. So a box is stored
    *swizzled*: in row r, piece p of 16 bytes goes to place p xor (r mod 8). Then the
    pieces of a column are in different banks:

        row 0     0 1 2 3 4 5 6 7       row 2     2 3 0 1 6 7 4 5
        row 1     1 0 3 2 5 4 7 6       row 3     3 2 1 0 7 6 5 4   ...

    The engine swizzles while it copies, and wgmma expects it: the launch sets the
    `transforms` of each buffer to tiles of 8 x 64 elements and a swizzle of 128 bytes.
    Indexing stays the same.

    `plgpu.wgmma(acc, a, b)` only starts a product: it returns while the tensor cores
    still read a and b. `plgpu.wgmma_wait(n)` waits until at most n of the started
    products are left. Before that, don't copy into a or b. `plgpu.ACC` is the type of an
    accumulator for `pl.run_scoped`. An accumulator starts at 0, and reading it waits for
    its products.

    For 4096 x 4096 x 4096, an H100 takes 139 µs at its peak of 989 TFLOP/s. With
    bm = bn = 128, a and b are read 32 times each, mostly from L2.

Shapes
    name     dtype[dims]       memory space   Ref's shape   block
    a_gmem   a.dtype[M, K]     GMEM           (M, K)        yours
    b_gmem   a.dtype[K, N]     GMEM           (K, N)        yours
    o_gmem   a.dtype[M, N]     GMEM           (M, N)        yours
    a_smem   a.dtype[bm, bk]   SMEM scratch   (bm, bk)      -
    b_smem   a.dtype[bk, bn]   SMEM scratch   (bk, bn)      -
    o_smem   a.dtype[bm, bn]   SMEM scratch   (bm, bn)      -
    here     barrier           SMEM scratch   ()            -

    The barrier completes after two arrivals.

Try
    pytest -k wgmma_matmul          stuck?  kata hint wgmma_matmul

Needs     tma_copy, tiled_matmul
Read on   Pallas:Mosaic GPU, https://docs.jax.dev/en/latest/pallas/gpu/reference.html
"""

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jaxtyping import Array, Float


def wgmma_matmul_spec(a: Float[Array, "M K"], b: Float[Array, "K N"]) -> Float[Array, "M N"]:
    """The required result, in plain jax.numpy."""
    return a @ b


def wgmma_matmul_kernel(a_gmem, b_gmem, o_gmem, a_smem, b_smem, o_smem, here):
    """Compute one box of the result, in steps over K."""
    (bm, bk), bn = a_smem.shape, b_smem.shape[1]
    rows = pl.ds(lax.axis_index("i") * bm, bm)
    columns = pl.ds(lax.axis_index("j") * bn, bn)

    # BEGIN SOLUTION
    raise NotImplementedError(
        "sum the products of boxes of a and b over K with wgmma, and copy the result out"
    )
    # END SOLUTION


def wgmma_matmul(
    a: Float[Array, "M K"], b: Float[Array, "K N"], *, bm=64, bn=128, bk=64
) -> Float[Array, "M N"]:
    """Launch: a block for each box of the result; boxes in the layout that wgmma reads. Given."""
    M, N = a.shape[0], b.shape[1]
    layout = (plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128))
    return plgpu.kernel(
        wgmma_matmul_kernel,
        out_type=jax.ShapeDtypeStruct((M, N), a.dtype),
        scratch_types=(
            plgpu.SMEM((bm, bk), a.dtype, transforms=layout),
            plgpu.SMEM((bk, bn), b.dtype, transforms=layout),
            plgpu.SMEM((bm, bn), a.dtype, transforms=layout),
            plgpu.Barrier(num_arrivals=2),
        ),
        grid=(M // bm, N // bn),
        grid_names=("i", "j"),
    )(a, b)


def test_wgmma_matmul(hidden_case):
    hidden_case.grade(wgmma_matmul)
