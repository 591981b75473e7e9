"""Small kernels to compile for a TPU, each for what is special about it, and a process to do so.

    python -m tests.pallascope.support.tpu_kernels FILE CHIP [NAME …]

writes what the compiler makes of them to FILE; `read` reads it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pallascope.model import KernelCall
from pallascope.tools import codec
from pallascope.tpu.compiler import Build


@dataclass(frozen=True, slots=True)
class Built:
    name: str
    call: KernelCall
    build: Build


@dataclass(frozen=True, slots=True)
class All:
    built: tuple[Built, ...]


def read(file: Path) -> dict[str, Built]:
    return {one.name: one for one in codec.unpack(All, file.read_bytes()).built}


Launch = tuple[Callable[..., Any], Sequence[Any]]


def launches() -> dict[str, Callable[[], Launch]]:
    """Functions that make a launch function and its arguments, by name."""
    import jax
    import jax.numpy as jnp
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import tpu as pltpu

    f32, bf16, i32 = jnp.float32, jnp.bfloat16, jnp.int32
    struct, spec, vmem = jax.ShapeDtypeStruct, pl.BlockSpec, pltpu.VMEM
    table: dict[str, Callable[[], Launch]] = {}

    def launch(function: Callable[[], Launch]) -> Callable[[], Launch]:
        table[function.__name__] = function
        return function

    def copying(rows: int, columns: int, steps: int, **params: Any) -> Launch:
        """Windows as large as wanted, and next to nothing to compile."""

        def kernel(x_ref, o_ref):
            o_ref[:8, :] = x_ref[:8, :]

        block = spec((rows, columns), lambda i: (i, 0))
        whole = struct((rows * steps, columns), f32)
        call = pl.pallas_call(
            kernel,
            grid=(steps,),
            in_specs=[block],
            out_specs=block,
            out_shape=whole,
            compiler_params=pltpu.CompilerParams(**params),
        )
        return call, [whole]

    def holding(*scratch: Any) -> Launch:
        """As much scratch as wanted; which part is used is known only when it runs."""

        def kernel(n_ref, o_ref, *refs):
            at = pl.ds(pl.multiple_of(n_ref[0] * 8, 8), 8)
            refs[0][at, :] = jnp.full((8, refs[0].shape[1]), n_ref[1], f32)
            o_ref[...] = refs[0][:8, :128]

        call = pl.pallas_call(
            kernel,
            in_specs=[spec(memory_space=pltpu.SMEM)],
            out_shape=struct((8, 128), f32),
            scratch_shapes=list(scratch),
        )
        return call, [struct((2,), i32)]

    def elementwise(body: Callable[..., Any], out: Any, *args: Any) -> Launch:
        def kernel(*refs):
            refs[-1][...] = body(*refs[:-1])

        return pl.pallas_call(kernel, out_shape=out), args

    @launch
    def doubling() -> Launch:
        return elementwise(lambda x: x[...] * 2, struct((64, 128), f32), struct((64, 128), f32))

    @launch
    def column() -> Launch:
        """XLA copies the result into another layout: a second listing, larger than the kernel's."""

        def kernel(x_ref, o_ref):
            o_ref[...] = x_ref[:, :1]

        rows = spec((128, 128), lambda i: (i, 0))
        one = spec((128, 1), lambda i: (i, 0))
        call = pl.pallas_call(
            kernel, grid=(4,), in_specs=[rows], out_specs=one, out_shape=struct((512, 1), f32)
        )
        return call, [struct((512, 128), f32)]

    @launch
    def outer() -> Launch:
        def kernel(x_ref, y_ref, o_ref):
            o_ref[...] = x_ref[...] * y_ref[...]

        call = pl.pallas_call(
            kernel,
            grid=(8, 8),
            in_specs=[spec((256, 1), lambda i, j: (i, 0)), spec((1, 512), lambda i, j: (0, j))],
            out_specs=spec((256, 512), lambda i, j: (i, j)),
            out_shape=struct((2048, 4096), f32),
        )
        return call, [struct((2048, 1), f32), struct((1, 4096), f32)]

    @launch
    def matmul() -> Launch:
        """Every kind of operand, a second output, a window of one buffer."""

        def kernel(n_ref, x_ref, y_ref, w_ref, o_ref, s_ref, acc_ref, count_ref, sem_ref):
            @pl.when(pl.program_id(2) == 0)
            def _():
                acc_ref[...] = jnp.zeros_like(acc_ref)

            acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=f32)
            count_ref[0] = n_ref[0]

            @pl.when(pl.program_id(2) == 1)
            def _():
                o_ref[...] = acc_ref[...].astype(bf16)
                s_ref[...] = acc_ref[:, :1] + w_ref[:1, :1]

        grid_spec = pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(2, 2, 2),
            in_specs=[
                spec((128, 256), lambda i, j, k, n: (i, k)),
                spec((256, 128), lambda i, j, k, n: (k, j), pipeline_mode=pl.Buffered(1)),
                spec((8, 128), lambda i, j, k, n: (0, 0)),
            ],
            out_specs=[
                spec((128, 128), lambda i, j, k, n: (i, j)),
                spec((128, 1), lambda i, j, k, n: (i, 0)),
            ],
            scratch_shapes=[
                vmem((128, 128), f32),
                pltpu.SMEM((1,), i32),
                pltpu.SemaphoreType.DMA((2,)),
            ],
        )
        call = pl.pallas_call(
            kernel,
            grid_spec=grid_spec,
            out_shape=[struct((256, 256), bf16), struct((256, 1), f32)],
        )
        shapes = [((4,), i32), ((256, 512), bf16), ((512, 256), bf16), ((8, 128), f32)]
        return call, [struct(shape, dtype) for shape, dtype in shapes]

    @launch
    def dynamic() -> Launch:
        """The size of its grid is an argument."""

        def kernel(n_ref, x_ref, o_ref):
            o_ref[...] = x_ref[...] + 1

        def function(steps, n, x):
            grid_spec = pltpu.PrefetchScalarGridSpec(
                num_scalar_prefetch=1,
                grid=(steps,),
                in_specs=[spec((8, 128), lambda i, n: (n[i], 0))],
                out_specs=spec((8, 128), lambda i, n: (i, 0)),
            )
            return pl.pallas_call(kernel, grid_spec=grid_spec, out_shape=x)(n, x)

        return function, [struct((), i32), struct((4,), i32), struct((32, 128), f32)]

    @launch
    def squeezed() -> Launch:
        """Blocks of several ranks and widths, moving, standing and whole."""

        def kernel(a_ref, b_ref, c_ref, d_ref, o_ref):
            o_ref[...] = jnp.zeros_like(o_ref)

        call = pl.pallas_call(
            kernel,
            grid=(4,),
            in_specs=[
                spec((None, 16, 128), lambda i: (i, 0, 0)),
                spec((3, 100), lambda i: (0, 0)),
                spec((128, 256), lambda i: (0, 0)),
                spec((1024,), lambda i: (i,)),
            ],
            out_specs=spec((8, 128), lambda i: (i, 0)),
            out_shape=struct((32, 128), f32),
        )
        shapes = [((4, 16, 128), bf16), ((3, 100), f32), ((512, 256), jnp.int8), ((4096,), f32)]
        return call, [struct(shape, dtype) for shape, dtype in shapes]

    @launch
    def named() -> Launch:
        """libtpu cuts the names of files."""
        x = struct((8, 128), f32)
        name = "a_kernel_with_a_name_that_no_file_can_have_" * 8
        return pl.pallas_call(lambda x_ref, o_ref: None, out_shape=x, name=name), [x]

    @launch
    def asking() -> Launch:
        return copying(1024, 1024, 4, vmem_limit_bytes=40 << 20)

    @launch
    def exactly() -> Launch:
        """All that there is on v5e: 16 MiB."""
        return copying(1024, 1024, 4)

    @launch
    def spilling() -> Launch:
        x = struct((256, 256), f32)
        return elementwise(lambda x: jnp.dot(x[...], x[...] + 1) * jnp.exp(x[...]), x, x)

    @launch
    def large_blocks() -> Launch:
        return copying(2048, 1024, 4)

    @launch
    def large_array() -> Launch:
        x = struct((4096, 1024), f32)

        def kernel(x_ref, o_ref):
            o_ref[:8, :] = x_ref[:8, :]

        return pl.pallas_call(kernel, out_shape=x), [x]

    @launch
    def larger_than_vmem() -> Launch:
        return copying(8192, 2048, 4)

    @launch
    def large_scratch() -> Launch:
        return holding(vmem((6144, 1024), f32))

    @launch
    def scratch_larger_than_vmem() -> Launch:
        return holding(vmem((40960, 1024), f32), vmem((8, 128), f32))

    @launch
    def values_too_large() -> Launch:
        """Not its blocks, but what is computed of them."""
        shapes = [((512, 128), f32), ((128, 1024), f32)]

        def kernel(x_ref, y_ref, o_ref, big_ref):
            both = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=f32)
            at = pl.multiple_of(pl.program_id(0) * 8, 8)
            big_ref[pl.ds(at, 8), :] = both[:8, :]
            top = big_ref[:8, :128]
            weights = jax.nn.softmax(jnp.dot(x_ref[...], y_ref[...] + 1), -1)
            o_ref[...] = both * weights * top[:1, :1]

        call = pl.pallas_call(
            kernel,
            grid=(2,),
            out_shape=struct((512, 1024), f32),
            scratch_shapes=[vmem((3072, 1024), f32)],
        )
        return call, [struct(shape, dtype) for shape, dtype in shapes]

    @launch
    def large_table() -> Launch:
        def kernel(n_ref, x_ref, o_ref):
            o_ref[...] = x_ref[...] * n_ref[0]

        call = pl.pallas_call(
            kernel,
            in_specs=[spec(memory_space=pltpu.SMEM), spec((8, 128), lambda: (0, 0))],
            out_shape=struct((8, 128), f32),
        )
        return call, [struct((400_000,), f32), struct((8, 128), f32)]

    @launch
    def many_semaphores() -> Launch:
        def kernel(x_ref, o_ref, sem_ref):
            o_ref[...] = x_ref[...]

        x = struct((8, 128), f32)
        scratch = [pltpu.SemaphoreType.DMA((5000,))]
        return pl.pallas_call(kernel, out_shape=x, scratch_shapes=scratch), [x]

    @launch
    def large_arrays() -> Launch:
        return copying(8, 128, 1 << 23)

    @launch
    def half() -> Launch:
        x = struct((16, 128), jnp.float16)
        return elementwise(lambda x: x[...] * 2, x, x)

    @launch
    def unaligned() -> Launch:
        def kernel(n_ref, x_ref, o_ref):
            o_ref[...] = x_ref[:, pl.ds(n_ref[0], 128)]

        call = pl.pallas_call(
            kernel,
            in_specs=[spec(memory_space=pltpu.SMEM), spec((8, 512), lambda: (0, 0))],
            out_shape=struct((8, 128), f32),
        )
        return call, [struct((1,), i32), struct((8, 512), f32)]

    @launch
    def bytes_multiplied() -> Launch:
        x = struct((32, 128), jnp.int8)
        return elementwise(lambda x: x[...] * x[...], x, x)

    @launch
    def reshaped() -> Launch:
        x, o = struct((48, 128), f32), struct((64, 96), f32)
        return elementwise(lambda x: x[...].reshape(64, 96), o, x)

    @launch
    def sorted_values() -> Launch:
        x = struct((8, 128), f32)
        return elementwise(lambda x: jnp.sort(x[...]), x, x)

    # ---- what the advice on refusals says ----

    def starting(load: Callable[..., Any]) -> Launch:
        def kernel(n_ref, x_ref, o_ref):
            o_ref[...] = load(x_ref, n_ref[0])

        call = pl.pallas_call(
            kernel,
            in_specs=[spec(memory_space=pltpu.SMEM), spec((8, 512), lambda: (0, 0))],
            out_shape=struct((8, 128), f32),
        )
        return call, [struct((1,), i32), struct((8, 512), f32)]

    @launch
    def mended_half() -> Launch:
        x = struct((16, 128), bf16)
        return elementwise(lambda x: x[...] * 2, x, x)

    @launch
    def mended_start() -> Launch:
        return starting(lambda x, n: x[:, pl.ds(pl.multiple_of(n, 128), 128)])

    @launch
    def mended_start_by_shifting() -> Launch:
        return starting(lambda x, n: pltpu.roll(x[...], n, 1)[:, :128])

    @launch
    def mended_copy() -> Launch:
        def kernel(n_ref, x_ref, o_ref, sem_ref):
            part = x_ref.at[:, pl.ds(pl.multiple_of(n_ref[0], 128), 128)]
            pltpu.async_copy(part, o_ref, sem_ref).wait()

        call = pl.pallas_call(
            kernel,
            in_specs=[spec(memory_space=pltpu.SMEM), spec(memory_space=pl.ANY)],
            out_shape=struct((8, 128), f32),
            scratch_shapes=[pltpu.SemaphoreType.DMA],
        )
        return call, [struct((1,), i32), struct((8, 512), f32)]

    def narrow(body: Callable[..., Any], wide: Any, dtype: Any) -> Launch:
        x = struct((32, 128), dtype)
        return elementwise(lambda x: body(x[...].astype(wide)).astype(x.dtype), x, x)

    @launch
    def mended_bytes() -> Launch:
        return narrow(lambda x: jnp.maximum(x * x, 3) % 5, i32, jnp.int8)

    @launch
    def mended_shorts() -> Launch:
        return narrow(lambda x: jnp.maximum(x * x, 3) % 5, i32, jnp.int16)

    @launch
    def mended_eighths() -> Launch:
        return narrow(lambda x: jnp.exp(x / (x + 1)), f32, jnp.float8_e5m2)

    @launch
    def mended_matmul() -> Launch:
        x, o = struct((128, 128), i32), struct((128, 128), f32)

        def body(x):
            wide = x[...].astype(bf16)
            return jnp.dot(wide, wide, preferred_element_type=f32)

        return elementwise(body, o, x)

    @launch
    def mended_gather() -> Launch:
        x = struct((32, 128), bf16)
        ones = struct((8, 128), i32)

        def body(x, n):
            rows = jax.lax.broadcasted_iota(i32, (8, 32), 1)
            hot = jnp.where(n[:, :1] == rows, 1.0, 0.0).astype(bf16)
            return jnp.dot(hot, x[...], preferred_element_type=f32)

        return elementwise(body, struct((8, 128), f32), x, ones)

    @launch
    def mended_gather_of_8() -> Launch:
        x, n = struct((8, 128), f32), struct((8, 128), i32)
        return elementwise(lambda x, n: jnp.take_along_axis(x[...], n[...], 0), x, x, n)

    @launch
    def mended_reshape() -> Launch:
        x, o = struct((48, 128), f32), struct((6, 8, 128), f32)
        return elementwise(lambda x: x[...].reshape(6, 8, 128), o, x)

    @launch
    def mended_stride() -> Launch:
        x, o = struct((32, 128), f32), struct((16, 128), f32)
        return elementwise(lambda x: x[pl.ds(0, 16, stride=2), :], o, x)

    @launch
    def mended_mask() -> Launch:
        x = struct((32, 128), f32)

        def body(x):
            mask = pltpu.roll(jnp.where(x[...] > 0, 1, 0), 1, 1) > 0
            return jnp.where(mask, x[...], 0.0)

        return elementwise(body, x, x)

    return table


def main(file: str, chip: str, *names: str) -> None:
    from pallascope.kernels import TracedLaunch, for_chip
    from pallascope.tpu import chips, compiler

    target, table = chips.named(chip), launches()
    built = []
    for name in names or table:
        function, args = table[name]()
        with for_chip(target.kind, target.cores):
            (kernel,) = TracedLaunch.of(function, args, {}).kernels(args)
        build = compiler.build(kernel, target)
        assert build == compiler.build(kernel, target), f"{name}: another build the second time"
        built.append(Built(name, kernel.call, build))
    Path(file).write_bytes(codec.pack(All(tuple(built))))


if __name__ == "__main__":
    main(*sys.argv[1:])
