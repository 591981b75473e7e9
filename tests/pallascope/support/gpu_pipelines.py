"""Kernels for GPUs with copies, products and barriers, right and wrong in one thing at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.experimental.pallas as pl
import jax.experimental.pallas.mosaic_gpu as plgpu
import jax.numpy as jnp
from jax import lax

from tests.pallascope.support.gpu_launches import USUAL, Struct

Launch = Callable[..., jax.Array]
X = Struct((256, 64), jnp.dtype("float16"))
A, B = Struct((128, 320), jnp.dtype("float16")), Struct((320, 128), jnp.dtype("float16"))


def copied(
    commit: bool = True, drain: bool = True, ahead: int = 1, out_left: int = 1, arrivals: int = 1
) -> Launch:
    """x + 1, a pipeline by hand: two slots in, two slots out."""

    def launch(x: jax.Array) -> jax.Array:
        steps = x.shape[0] // 64

        def body(x_gmem: Any, o_gmem: Any, x_slots: Any, o_slots: Any, here: Any) -> None:
            def fetch(i: Any) -> None:
                rows, slot = pl.ds(i * 64, 64), lax.rem(i, 2)
                plgpu.copy_gmem_to_smem(x_gmem.at[rows], x_slots.at[slot], here.at[slot])

            for first in range(ahead):
                fetch(jnp.int32(first))

            def step(i: Any, _: None) -> None:
                slot = lax.rem(i, 2)
                pl.when(i + ahead < steps)(lambda: fetch(i + ahead))
                plgpu.barrier_wait(here.at[slot])
                plgpu.wait_smem_to_gmem(out_left, wait_read_only=True)
                o_slots[slot] = x_slots[slot] + 1
                if commit:
                    plgpu.commit_smem()
                plgpu.copy_smem_to_gmem(o_slots.at[slot], o_gmem.at[pl.ds(i * 64, 64)])

            lax.fori_loop(0, steps, step, None)
            if drain:
                plgpu.wait_smem_to_gmem(0)

        slots = plgpu.SMEM((2, 64, x.shape[1]), x.dtype)
        here = plgpu.Barrier(num_arrivals=arrivals, num_barriers=2)
        out = Struct(x.shape, x.dtype)
        return plgpu.kernel(body, out_type=out, scratch_types=(slots, slots, here))(x)

    return launch


def two_copies(both: bool = True) -> Launch:
    """The sum of two blocks, whose copies have barriers of their own; `both`: waits for both."""

    def launch(x: jax.Array) -> jax.Array:
        def body(x_gmem: Any, o_gmem: Any, a_smem: Any, b_smem: Any, o_smem: Any, here: Any):
            for n, smem in enumerate((a_smem, b_smem)):
                plgpu.copy_gmem_to_smem(x_gmem.at[pl.ds(n * 64, 64)], smem, here.at[n])
            for n in range(1 + both):
                plgpu.barrier_wait(here.at[n])
            o_smem[...] = a_smem[...] + b_smem[...]
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(o_smem, o_gmem)
            plgpu.wait_smem_to_gmem(0)

        block = plgpu.SMEM((64, x.shape[1]), x.dtype)
        scratch = (block, block, block, plgpu.Barrier(num_arrivals=1, num_barriers=2))
        out = Struct((64, x.shape[1]), x.dtype)
        return plgpu.kernel(body, out_type=out, scratch_types=scratch)(x)

    return launch


def handed_on(early: bool = False) -> Launch:
    """x + 1: one thread copies in, another reads; `early`: it frees a slot before it reads it."""

    def launch(x: jax.Array) -> jax.Array:
        steps = x.shape[0] // 64

        def produce(x_gmem: Any, x_slots: Any, full: Any, free: Any) -> None:
            def step(i: Any, _: None) -> None:
                slot = lax.rem(i, 2)
                pl.when(i >= 2)(lambda: plgpu.barrier_wait(free.at[slot]))
                rows = x_gmem.at[pl.ds(i * 64, 64)]
                plgpu.copy_gmem_to_smem(rows, x_slots.at[slot], full.at[slot])

            lax.fori_loop(0, steps, step, None)

        def consume(o_gmem: Any, x_slots: Any, o_smem: Any, full: Any, free: Any) -> None:
            def step(i: Any, _: None) -> None:
                slot = lax.rem(i, 2)
                plgpu.barrier_wait(full.at[slot])
                if early:
                    plgpu.barrier_arrive(free.at[slot])
                value = x_slots[slot]
                if not early:
                    plgpu.barrier_arrive(free.at[slot])
                plgpu.wait_smem_to_gmem(0)
                o_smem[...] = value + 1
                plgpu.commit_smem()
                plgpu.copy_smem_to_gmem(o_smem, o_gmem.at[pl.ds(i * 64, 64)])

            lax.fori_loop(0, steps, step, None)
            plgpu.wait_smem_to_gmem(0)

        def body(x_gmem, o_gmem, x_slots, o_smem, full, free) -> None:
            wg = lax.axis_index("wg")
            pl.when(wg == 0)(lambda: produce(x_gmem, x_slots, full, free))
            pl.when(wg == 1)(lambda: consume(o_gmem, x_slots, o_smem, full, free))

        scratch = (
            plgpu.SMEM((2, 64, x.shape[1]), x.dtype),
            plgpu.SMEM((64, x.shape[1]), x.dtype),
            plgpu.Barrier(num_arrivals=1, num_barriers=2),
            plgpu.Barrier(num_arrivals=1, num_barriers=2),
        )
        threads: dict[str, Any] = {"num_threads": 2, "thread_name": "wg"}
        out = Struct(x.shape, x.dtype)
        return plgpu.kernel(body, out_type=out, scratch_types=scratch, **threads)(x)

    return launch


def multiplied(
    early: bool = False, arrivals: int = 2, arrive: bool = True, wait: bool = True, left: int = 0
) -> Launch:
    """a @ b by three threads: two multiply, one copies for both into two slots."""

    def launch(a: jax.Array, b: jax.Array) -> jax.Array:
        steps, columns = a.shape[1] // 64, b.shape[1]

        def produce(a_gmem: Any, b_gmem: Any, a_slots: Any, b_slots: Any, full: Any, free: Any):
            def step(k: Any, _: None) -> None:
                slot, inner = lax.rem(k, 2), pl.ds(k * 64, 64)
                if wait:
                    pl.when(k >= 2)(lambda: plgpu.barrier_wait(free.at[slot]))
                plgpu.copy_gmem_to_smem(a_gmem.at[:, inner], a_slots.at[slot], full.at[slot])
                plgpu.copy_gmem_to_smem(b_gmem.at[inner], b_slots.at[slot], full.at[slot])

            lax.fori_loop(0, steps, step, None)

        def consume(acc: Any, rows: Any, a_slots: Any, b_slots: Any, full: Any, free: Any) -> Any:
            def step(k: Any, _: None) -> None:
                slot = lax.rem(k, 2)
                plgpu.barrier_wait(full.at[slot])
                plgpu.wgmma(acc, a_slots.at[slot, rows], b_slots.at[slot])
                if early:
                    plgpu.barrier_arrive(free.at[slot])
                plgpu.wgmma_wait(left)
                if arrive and not early:
                    plgpu.barrier_arrive(free.at[slot])

            lax.fori_loop(0, steps, step, None)
            return acc[...]

        def body(a_gmem, b_gmem, o_gmem, a_slots, b_slots, o_smem, full, free) -> None:
            wg = lax.axis_index("wg")
            shared = a_slots, b_slots, full, free
            pl.when(wg == 2)(lambda: produce(a_gmem, b_gmem, *shared))

            @pl.when(wg < 2)
            def _() -> None:
                rows = pl.ds(wg * 64, 64)
                held = plgpu.ACC((64, columns), jnp.float32)  # pyright: ignore[reportPrivateImportUsage]
                acc = pl.run_scoped(lambda acc: consume(acc, rows, *shared), held)
                o_smem[rows] = acc.astype(jnp.float16)
                plgpu.commit_smem()
                plgpu.copy_smem_to_gmem(o_smem.at[rows], o_gmem.at[rows])
                plgpu.wait_smem_to_gmem(0)

        scratch = (
            plgpu.SMEM((2, a.shape[0], 64), a.dtype, transforms=USUAL),
            plgpu.SMEM((2, 64, columns), b.dtype, transforms=USUAL),
            plgpu.SMEM((a.shape[0], columns), a.dtype, transforms=USUAL),
            plgpu.Barrier(num_arrivals=2, num_barriers=2),
            plgpu.Barrier(num_arrivals=arrivals, num_barriers=2),
        )
        out = Struct((a.shape[0], columns), a.dtype)
        threads: dict[str, Any] = {"num_threads": 3, "thread_name": "wg"}
        return plgpu.kernel(body, out_type=out, scratch_types=scratch, **threads)(a, b)

    return launch


def tensor_products(
    free: bool = True, done: bool = True, told: bool = True, loaded: bool = True, adds: bool = False
) -> Launch:
    """2a @ b on a Blackwell, by two rounds through two slots, each into the same tensor memory."""

    def launch(a: jax.Array, b: jax.Array) -> jax.Array:
        steps, (rows, columns) = a.shape[1] // 64, (a.shape[0], b.shape[1])

        def body(a_gmem, b_gmem, o_gmem, a_slots, b_slots, o_smem, acc_tmem, here, left, end):
            def step(i: Any, _: None) -> None:
                slot, k = lax.rem(i, 2), lax.rem(i, steps)
                inner = pl.ds(k * 64, 64)
                if free:
                    pl.when(i >= 2)(lambda: plgpu.barrier_wait(left.at[slot]))
                plgpu.copy_gmem_to_smem(a_gmem.at[:, inner], a_slots.at[slot], here.at[slot])
                plgpu.copy_gmem_to_smem(b_gmem.at[inner], b_slots.at[slot], here.at[slot])
                plgpu.barrier_wait(here.at[slot])
                accumulate = True if adds else k > 0
                both = a_slots.at[slot], b_slots.at[slot]
                plgpu.tcgen05_mma(acc_tmem, *both, left.at[slot], accumulate=accumulate)

            for turn in range(2):
                lax.fori_loop(turn * steps, (turn + 1) * steps, step, None)
                if told:
                    plgpu.tcgen05_commit_arrive(end)
                if done:
                    plgpu.barrier_wait(end)
                result = plgpu.async_load_tmem(acc_tmem)
                o_smem[...] = (result * 2).astype(o_smem.dtype)
                if loaded:
                    plgpu.wait_load_tmem()
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(o_smem, o_gmem)
            plgpu.wait_smem_to_gmem(0)

        scratch = (
            plgpu.SMEM((2, rows, 64), a.dtype, transforms=USUAL),
            plgpu.SMEM((2, 64, columns), b.dtype, transforms=USUAL),
            plgpu.SMEM((rows, columns), a.dtype, transforms=USUAL),
            plgpu.TMEM((rows, columns), jnp.float32),
            plgpu.Barrier(num_arrivals=2, num_barriers=2),
            plgpu.Barrier(num_barriers=2, orders_tensor_core=True),
            plgpu.Barrier(orders_tensor_core=True),
        )
        out = Struct((rows, columns), a.dtype)
        return plgpu.kernel(body, out_type=out, scratch_types=scratch)(a, b)

    return launch


def chosen(commit: bool = True) -> Launch:
    """x + 1 by blocks of 64 rows, in the order that sums of `sizes` give; none before row 64."""

    def launch(sizes: jax.Array, x: jax.Array) -> jax.Array:
        def body(first_gmem: Any, x_gmem: Any, o_gmem: Any, x_smem: Any, here: Any) -> None:
            first = first_gmem[lax.axis_index("block")]

            @pl.when(first >= 64)
            def _() -> None:
                rows = pl.ds(first, 64)
                plgpu.copy_gmem_to_smem(x_gmem.at[rows], x_smem, here)
                plgpu.barrier_wait(here)
                x_smem[...] = x_smem[...] + 1
                if commit:
                    plgpu.commit_smem()
                plgpu.copy_smem_to_gmem(x_smem, o_gmem.at[rows])
                plgpu.wait_smem_to_gmem(0)

        grid: dict[str, Any] = {"grid": sizes.shape, "grid_names": ("block",)}
        scratch = (plgpu.SMEM((64, x.shape[1]), x.dtype), plgpu.Barrier())
        out = Struct(x.shape, x.dtype)
        launched = plgpu.kernel(body, out_type=out, scratch_types=scratch, **grid)
        return launched(jnp.cumsum(sizes).astype(jnp.int32), x)

    return launch


def scaled(share: Callable[[Any, Any], Any]) -> Launch:
    """2x by two threads a block; `share` says where one begins, of 128 elements each."""

    def launch(x: jax.Array) -> jax.Array:
        def body(x_gmem: Any, o_gmem: Any) -> None:
            at = pl.ds(share(lax.axis_index("block"), lax.axis_index("wg")), 128)
            o_gmem[at] = x_gmem[at] * 2

        grid: dict[str, Any] = {"grid": (x.shape[0] // 256,), "grid_names": ("block",)}
        threads: dict[str, Any] = {"num_threads": 2, "thread_name": "wg"}
        return plgpu.kernel(body, out_type=Struct(x.shape, x.dtype), **grid, **threads)(x)

    return launch
