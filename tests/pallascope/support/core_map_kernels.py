"""Launches of `pl.kernel` and `pl.core_map`: kernels over a mesh, their operands in HBM."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import tpu_sc as plsc

ROWS, LANES = 256, 256


def tensor_cores(count: int) -> Any:
    """A mesh of TensorCores along the axis "core", by the name that this version of jax has."""
    if (newest := getattr(pltpu, "TensorCoreMesh", None)) is not None:
        return newest(axis_name="core", num_cores=count)
    return pltpu.create_tensorcore_mesh("core", num_cores=count)


def launched(kernel: Callable[..., None], out: Any, cores: int = 1, **options: Any) -> Any:
    """`pl.kernel` over a mesh of so many TensorCores."""
    return pl.kernel(kernel, out, mesh=tensor_cores(cores), **options)


def _like(x: jax.Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def add_by_copies(x: jax.Array) -> jax.Array:
    """Brings all of x into VMEM, adds 10, and copies it out."""

    def kernel(x_ref: Any, o_ref: Any) -> None:
        def scoped(buffer: Any) -> None:
            pltpu.sync_copy(x_ref, buffer)
            buffer[...] = buffer[...] + 10
            pltpu.sync_copy(buffer, o_ref)

        pl.run_scoped(scoped, pltpu.VMEM(x.shape, x.dtype))

    return launched(kernel, _like(x))(x)


def add_with_scratch(x: jax.Array) -> jax.Array:
    """The same with a buffer and a semaphore that the launch asks for."""

    def kernel(x_ref: Any, o_ref: Any, buffer: Any, semaphore: Any) -> None:
        into = pltpu.make_async_copy(x_ref, buffer, semaphore)
        into.start()
        into.wait()
        buffer[...] = buffer[...] + 10
        out = pltpu.make_async_copy(buffer, o_ref, semaphore)
        out.start()
        out.wait()

    scratch = [pltpu.VMEM(x.shape, x.dtype), pltpu.SemaphoreType.DMA]
    return launched(kernel, _like(x), scratch_types=scratch)(x)


def add_by_pipeline(x: jax.Array) -> jax.Array:
    """Goes over x in blocks of 64 rows."""

    def body(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] + 10

    block = pl.BlockSpec((64, x.shape[1]), lambda i: (i, 0))

    def kernel(x_ref: Any, o_ref: Any) -> None:
        grid = (x.shape[0] // 64,)
        pipeline = pltpu.emit_pipeline(body, grid=grid, in_specs=[block], out_specs=[block])
        pipeline(x_ref, o_ref)

    return launched(kernel, _like(x))(x)


def matmul_by_pipeline(x: jax.Array, y: jax.Array) -> jax.Array:
    """x @ y in blocks of 128 by 128, an accumulator in the scratch of the launch."""
    (m, k), n = x.shape, y.shape[1]
    grid = (m // 128, n // 128, k // 128)

    def kernel(x_ref: Any, y_ref: Any, o_ref: Any, acc_ref: Any) -> None:
        def body(x_block: Any, y_block: Any, o_block: Any) -> None:
            @pl.when(pl.program_id(2) == 0)
            def _() -> None:
                acc_ref[...] = jnp.zeros_like(acc_ref)

            acc_ref[...] += jnp.dot(x_block[...], y_block[...], preferred_element_type=jnp.float32)

            @pl.when(pl.program_id(2) == grid[2] - 1)
            def _() -> None:
                o_block[...] = acc_ref[...].astype(o_block.dtype)

        pltpu.emit_pipeline(
            body,
            grid=grid,
            in_specs=[
                pl.BlockSpec((128, 128), lambda i, j, k: (i, k)),
                pl.BlockSpec((128, 128), lambda i, j, k: (k, j)),
            ],
            out_specs=[pl.BlockSpec((128, 128), lambda i, j, k: (i, j))],
        )(x_ref, y_ref, o_ref)

    out = jax.ShapeDtypeStruct((m, n), x.dtype)
    return launched(kernel, out, scratch_types=[pltpu.VMEM((128, 128), jnp.float32)])(x, y)


def add_on_two_cores(x: jax.Array) -> jax.Array:
    """Each of two cores takes half of the rows."""
    half = x.shape[0] // 2

    def kernel(x_ref: Any, o_ref: Any) -> None:
        rows = pl.ds(pl.multiple_of(jax.lax.axis_index("core") * half, 8), half)

        def scoped(buffer: Any) -> None:
            pltpu.sync_copy(x_ref.at[rows], buffer)
            buffer[...] = buffer[...] + 10
            pltpu.sync_copy(buffer, o_ref.at[rows])

        pl.run_scoped(scoped, pltpu.VMEM((half, x.shape[1]), x.dtype))

    return launched(kernel, _like(x), cores=2)(x)


def add_unevenly(x: jax.Array, *, most: int) -> jax.Array:
    """The core with the number `most` takes all rows but the last 64, the other one those."""
    blocks = x.shape[0] // 64

    def body(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] + 10

    def kernel(x_ref: Any, o_ref: Any) -> None:
        has_most = jax.lax.axis_index("core") == most
        first = jnp.where(has_most, 0, blocks - 1)
        block = pl.BlockSpec((64, x.shape[1]), lambda i: (first + i, 0))
        steps = jnp.where(has_most, blocks - 1, 1)
        pltpu.emit_pipeline(body, grid=(steps,), in_specs=[block], out_specs=[block])(x_ref, o_ref)

    return launched(kernel, _like(x), cores=2)(x)


def sort_and_sum(x: jax.Array) -> jax.Array:
    """What no TPU takes: a sort, and a cumulative sum."""

    def kernel(x_ref: Any, o_ref: Any, buffer: Any) -> None:
        pltpu.sync_copy(x_ref, buffer)
        buffer[...] = jnp.cumsum(jnp.sort(buffer[...], axis=0), axis=0)
        pltpu.sync_copy(buffer, o_ref)

    return launched(kernel, _like(x), scratch_types=[pltpu.VMEM(x.shape, x.dtype)])(x)


def copy_within_hbm(x: jax.Array) -> jax.Array:
    """One DMA from HBM to HBM."""

    def kernel(x_ref: Any, o_ref: Any) -> None:
        pltpu.sync_copy(x_ref, o_ref)

    return launched(kernel, _like(x))(x)


def core_map(cores: int = 1) -> Any:
    """The decorator, which newest jax calls deprecated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return pl.core_map(tensor_cores(cores))


def _body(x_ref: Any, o_ref: Any, compute: Callable[[Any], Any]) -> None:
    def scoped(buffer: Any) -> None:
        pltpu.sync_copy(x_ref, buffer)
        buffer[...] = compute(buffer[...])
        pltpu.sync_copy(buffer, o_ref)

    pl.run_scoped(scoped, pltpu.VMEM(x_ref.shape, x_ref.dtype))


def add_in_core_map(x: jax.Array) -> jax.Array:
    """`pl.core_map` over Refs that it closes over, as JAX's TPU quickstart has it."""
    x_ref, o_ref = jax.new_ref(x), jax.new_ref(jnp.zeros_like(x))

    @core_map()
    def _() -> None:
        _body(x_ref, o_ref, lambda x: x + 10)

    return o_ref[...]


def sort_in_core_map(x: jax.Array) -> jax.Array:
    """The same with what no TPU takes."""
    x_ref, o_ref = jax.new_ref(x), jax.new_ref(jnp.zeros_like(x))

    @core_map()
    def _() -> None:
        _body(x_ref, o_ref, lambda x: jnp.sort(x, axis=0))

    return o_ref[...]


def add_in_run_state(x: jax.Array) -> jax.Array:
    """The same with Refs that live as long as a function runs."""

    def stateful(refs: Any) -> None:
        x_ref, o_ref = refs

        @core_map()
        def _() -> None:
            _body(x_ref, o_ref, lambda x: x + 10)

    state: Any = pl.run_state(stateful)
    _, out = state((x, jnp.zeros_like(x)))
    return out


def copy_on_sparse_cores(x: jax.Array) -> jax.Array:
    """A copy by the scalar subcore of each of two SparseCores."""
    scalar_subcores: Any = plsc.ScalarSubcoreMesh

    def kernel(x_ref: Any, o_ref: Any) -> None:
        pltpu.sync_copy(x_ref, o_ref)

    launch: Any = pl.kernel(kernel, _like(x), mesh=scalar_subcores(axis_name="core", num_cores=2))
    return launch(x)


def copy_from_or_to_vmem(x: jax.Array, *, into: bool) -> jax.Array:
    """A copy whose input lies in VMEM, or whose output does: XLA moves them there and back."""

    def kernel(x_ref: Any, o_ref: Any) -> None:
        pltpu.sync_copy(x_ref, o_ref)

    given = x if into else pltpu.with_memory_space_constraint(x, pltpu.VMEM)
    return launched(kernel, pltpu.VMEM(x.shape, x.dtype) if into else _like(x))(given)


def scoped_through_vmem(x: Any) -> Any:
    """A copy through a buffer in VMEM of the array's size, which the kernel makes by itself."""

    def kernel(x_ref: Any, o_ref: Any) -> None:
        def scoped(buffer: Any) -> None:
            pltpu.sync_copy(x_ref, buffer)
            pltpu.sync_copy(buffer, o_ref)

        pl.run_scoped(scoped, pltpu.VMEM(x.shape, x.dtype))

    return launched(kernel, x)(x)
