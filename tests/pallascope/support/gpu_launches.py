"""Small launches of Mosaic GPU kernels, right and wrong, for the tests of pallascope.gpu."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.experimental.pallas as pl
import jax.experimental.pallas.mosaic_gpu as plgpu
import jax.numpy as jnp
from jax import lax

Struct = jax.ShapeDtypeStruct
Array = jax.Array
Launch = Callable[..., Any]


def struct(dtype: str, *shape: int) -> Struct:
    return Struct(shape, jnp.dtype(dtype))


def tiled(columns: int, swizzle: int) -> tuple[Any, ...]:
    """The transforms of an operand of wgmma."""
    return (plgpu.TilingTransform((8, columns)), plgpu.SwizzleTransform(swizzle))


#: Of 16 bits, in rows of 64.
USUAL = tiled(64, 128)


def double_by_tma(x: Array) -> Array:
    """2x, by 64 rows a block: copied into shared memory, computed on there, copied back."""

    def body(x_gmem: Any, o_gmem: Any, rows_smem: Any, arrived: Any) -> None:
        rows = pl.ds(lax.axis_index("i") * 64, 64)
        plgpu.copy_gmem_to_smem(x_gmem.at[rows], rows_smem, arrived)
        plgpu.barrier_wait(arrived)
        rows_smem[...] = rows_smem[...] * 2
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(rows_smem, o_gmem.at[rows])
        plgpu.wait_smem_to_gmem(0)

    return plgpu.kernel(
        body,
        out_type=Struct(x.shape, x.dtype),
        scratch_types=(plgpu.SMEM((64, x.shape[1]), x.dtype), plgpu.Barrier()),
        grid=(x.shape[0] // 64,),
        grid_names=("i",),
    )(x)


def one_wgmma(
    a: Array,
    b: Array,
    a_transforms: Any = USUAL,
    b_transforms: Any = USUAL,
) -> Array:
    """a @ b in one block, with one wgmma."""

    def body(a_gmem: Any, b_gmem: Any, o_gmem: Any, a_smem: Any, b_smem: Any, here: Any) -> None:
        plgpu.copy_gmem_to_smem(a_gmem, a_smem, here)
        plgpu.copy_gmem_to_smem(b_gmem, b_smem, here)
        plgpu.barrier_wait(here)

        def with_accumulator(acc: Any) -> Array:
            plgpu.wgmma(acc, a_smem, b_smem)
            plgpu.wgmma_wait(0)
            return acc[...]

        shape = (a.shape[0], b.shape[1])
        o_gmem[...] = pl.run_scoped(with_accumulator, plgpu.ACC(shape, jnp.float32))  # pyright: ignore

    return plgpu.kernel(
        body,
        out_type=Struct((a.shape[0], b.shape[1]), jnp.float32),
        scratch_types=(
            plgpu.SMEM(a.shape, a.dtype, transforms=a_transforms),
            plgpu.SMEM(b.shape, b.dtype, transforms=b_transforms),
            plgpu.Barrier(num_arrivals=2),
        ),
    )(a, b)


def from_registers(b: Array, commit: bool = True) -> Array:
    """1 + ones @ b, and 1 + 2 x ones @ b, by two blocks.

    An accumulator begins with a value, and a left operand is in registers.
    """

    def body(b_gmem: Any, o_gmem: Any, b_smem: Any, o_smem: Any, here: Any) -> None:
        plgpu.copy_gmem_to_smem(b_gmem, b_smem, here)
        plgpu.barrier_wait(here)
        ones = plgpu.layout_cast(jnp.ones((64, b.shape[0]), b.dtype), plgpu.Layout.WGMMA)
        start = jnp.full((64, b.shape[1]), 1.0, jnp.float32)
        start = plgpu.layout_cast(start, plgpu.Layout.WGMMA)
        block = lax.axis_index("i")

        def multiply(acc: Any) -> None:
            plgpu.wgmma(acc, ones, b_smem)

            @pl.when(block == 1)
            def _() -> None:
                plgpu.wgmma(acc, ones, b_smem)

        o: Any = pl.run_state(multiply)(plgpu.ACC.init(start))  # pyright: ignore
        o_smem[...] = o.astype(o_smem.dtype)
        if commit:
            plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(o_smem, o_gmem.at[block])
        plgpu.wait_smem_to_gmem(0)

    return plgpu.kernel(
        body,
        out_type=Struct((2, 64, b.shape[1]), b.dtype),
        scratch_types=(
            plgpu.SMEM(b.shape, b.dtype, transforms=USUAL),
            plgpu.SMEM((64, b.shape[1]), b.dtype, transforms=USUAL),
            plgpu.Barrier(),
        ),
        grid=(2,),
        grid_names=("i",),
    )(b)


def whole(x: Array, of: Callable[[Array], Array], threads: int = 0) -> Array:
    """`of(x)` by registers alone: all of x at once, by one warpgroup or by several."""

    def body(x_gmem: Any, o_gmem: Any) -> None:
        rows = pl.ds(lax.axis_index("t") * 128, 128) if threads else slice(None)
        o_gmem[rows] = of(x_gmem[rows])

    more: dict[str, Any] = {"num_threads": threads, "thread_name": "t"} if threads else {}
    return plgpu.kernel(body, out_type=Struct(x.shape, x.dtype), **more)(x)


def sorts(x: Array) -> Array:
    return whole(x, jnp.sort)


def keeps_the_positive(x: Array) -> Array:
    return whole(x, jax.nn.relu)


def adds_one(x: Array) -> Array:
    return whole(x, lambda block: block + 1)


def spills(x: Array) -> Array:
    """A thread of 128 has 320 numbers of x, and of 255 registers."""
    return whole(x, lambda block: jnp.exp(block) + block * 2)


def sixteen_warpgroups(x: Array) -> Array:
    return whole(x, lambda block: block + 1, threads=16)


def two_large_buffers(x: Array) -> Array:
    """Shared memory for x twice over, and for nothing else."""

    def body(x_gmem: Any, o_gmem: Any, first: Any, second: Any, here: Any) -> None:
        plgpu.copy_gmem_to_smem(x_gmem, first, here)
        plgpu.barrier_wait(here)
        plgpu.copy_smem_to_gmem(first, o_gmem)
        plgpu.wait_smem_to_gmem(0)

    large = plgpu.SMEM(x.shape, x.dtype)
    scratch = (large, large, plgpu.Barrier())
    return plgpu.kernel(body, out_type=Struct(x.shape, x.dtype), scratch_types=scratch)(x)


def whole_into_part(x: Array) -> Array:
    """A copy of all of x into shared memory for half of its rows."""

    def body(x_gmem: Any, o_gmem: Any, smem: Any, here: Any) -> None:
        plgpu.copy_gmem_to_smem(x_gmem, smem, here)

    scratch = (plgpu.SMEM((x.shape[0] // 2, *x.shape[1:]), x.dtype), plgpu.Barrier())
    return plgpu.kernel(body, out_type=Struct(x.shape, x.dtype), scratch_types=scratch)(x)


def part_by_tma(x: Array, rows: int, columns: int) -> Array:
    """The corner of x with so many rows and columns, by one copy of TMA."""

    def body(x_gmem: Any, o_gmem: Any, smem: Any, here: Any) -> None:
        plgpu.copy_gmem_to_smem(x_gmem.at[pl.ds(0, rows), pl.ds(0, columns)], smem, here)
        plgpu.barrier_wait(here)
        plgpu.copy_smem_to_gmem(smem, o_gmem)
        plgpu.wait_smem_to_gmem(0)

    scratch = (plgpu.SMEM((rows, columns), x.dtype), plgpu.Barrier())
    out = Struct((rows, columns), x.dtype)
    return plgpu.kernel(body, out_type=out, scratch_types=scratch)(x)


def tensor_memory(x: Array) -> Array:
    """What a Hopper does not have."""

    def body(x_gmem: Any, o_gmem: Any, tmem: Any) -> None:
        o_gmem[...] = plgpu.async_load_tmem(tmem)

    scratch = (plgpu.TMEM((128, 128), jnp.float32),)
    out = Struct((128, 128), jnp.float32)
    return plgpu.kernel(body, out_type=out, scratch_types=scratch)(x)


def misuses_tensor_memory(x: Array, *, use: Callable[..., Any]) -> Array:
    """`use` is called with an accumulator, shared memory, a barrier, and the result."""

    def body(x_gmem: Any, o_gmem: Any, acc: Any, box: Any, here: Any) -> None:
        use(acc, box, here, o_gmem)

    layout = plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128)
    box = plgpu.SMEM((128, 128), jnp.float16, transforms=layout)
    scratch = (plgpu.TMEM((128, 128), jnp.float32), box, plgpu.Barrier())
    out = Struct((128, 128), jnp.float32)
    return plgpu.kernel(body, out_type=out, scratch_types=scratch)(x)


def name_error(x: Array) -> Array:
    return whole(x, lambda block: block + undefined)  # noqa: F821  # pyright: ignore


def without_kernel(x: Array) -> Array:
    return x + 1


def by_pallas_call(x: Array) -> Array:
    def body(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] + 1

    return pl.pallas_call(body, out_shape=Struct(x.shape, x.dtype))(x)
