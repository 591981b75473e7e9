"""Kernels that start copies by hand: right ones, and one for each kind of fault.

Each launch takes X, float32[32, 128], and the right ones return what is in `RIGHT` beside them. The
wrong ones leave out, move or change one line, chosen by `bug`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from tests.pallascope.support.core_map_kernels import launched

Launch = Callable[[Any], Any]

X = np.random.default_rng(0).standard_normal((32, 128)).astype(np.float32)
ROWS, STEPS = 8, 4
ANYWHERE = pl.BlockSpec(memory_space=pl.ANY)
BLOCK = pl.BlockSpec((ROWS, 128), lambda i: (i, 0))
SLOTS = pltpu.VMEM((2, ROWS, 128), jnp.float32)
PAIR = pltpu.SemaphoreType.DMA((2,))
IDS = np.array([3, 30, 3, 17, 0, 31, 8, 9], np.int32)


def _rows(i: Any) -> Any:
    return pl.ds(i * ROWS, ROWS)


def called(kernel: Any, scratch: Any, out_specs: Any = ANYWHERE, **others: Any) -> Launch:
    """A pallas_call from an array in HBM to one of its shape."""

    def launch(x: Any) -> Any:
        return pl.pallas_call(
            kernel,
            in_specs=[ANYWHERE],
            out_specs=out_specs,
            out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype),
            scratch_shapes=scratch,
            **others,
        )(x)

    return launch


def double_buffer(bug: str = "") -> Launch:
    """X + 1, through two slots in and two slots out."""

    def kernel(x_hbm: Any, o_hbm: Any, x_slots: Any, o_slots: Any, ins: Any, outs: Any) -> None:
        def fetch(i: Any, slot: Any) -> Any:
            return pltpu.make_async_copy(x_hbm.at[_rows(i)], x_slots.at[slot], ins.at[slot])

        def send(i: Any, slot: Any) -> Any:
            return pltpu.make_async_copy(o_slots.at[slot], o_hbm.at[_rows(i)], outs.at[slot])

        def step(i: Any, carry: None) -> None:
            slot, after = i % 2, (i + 1) % 2
            if bug == "same slot":
                after = slot
            if bug == "fetches after the wait, into the same slot":
                fetch(i, 0).wait()
                slot = after = 0

            @pl.when((i + 1 < STEPS) | (bug == "one block too many"))
            def _() -> None:
                fetch(i + 1, after).start()

            if bug == "wrong slot":
                fetch(i, 1 - slot).wait()
            elif not bug.startswith(("missing wait", "late wait", "fetches")):
                fetch(i, slot).wait()

            if bug not in ("output slot", "no wait for outputs"):

                @pl.when(i >= 2)
                def _() -> None:
                    send(i - 2, slot).wait()

            o_slots[slot] = x_slots[slot] + 1
            if bug == "late wait":
                fetch(i, slot).wait()
            if bug == "output slot":

                @pl.when(i >= 2)
                def _() -> None:
                    send(i - 2, slot).wait()

            send(i, slot).start()
            return carry

        if bug != "no prologue":
            fetch(0, 0).start()
        jax.lax.fori_loop(0, STEPS, step, None)
        if bug not in ("no epilogue", "no wait for outputs", "waits for the last only"):
            send(2, 0).wait()
        if bug not in ("no epilogue", "no wait for outputs", "waits for all but the last"):
            send(3, 1).wait()
        if bug == "one wait too many":
            send(3, 1).wait()

    return called(kernel, [SLOTS, SLOTS, PAIR, PAIR])


def prefetch_over_grid(bug: str = "") -> Launch:
    """X + 1; each grid step starts the copy of the next one."""
    semantics = "parallel" if bug == "parallel" else "arbitrary"

    def kernel(x_hbm: Any, o_ref: Any, slots: Any, sems: Any) -> None:
        i = pl.program_id(0)

        def fetch(i: Any) -> Any:
            return pltpu.make_async_copy(x_hbm.at[_rows(i)], slots.at[i % 2], sems.at[i % 2])

        pl.when(i == 0)(lambda: fetch(0).start())
        if bug == "one too far":
            fetch(jnp.minimum(i + 1, STEPS - 1)).start()
        else:
            pl.when(i + 1 < STEPS)(lambda: fetch(i + 1).start())
        if bug == "first wait":
            pl.when(i > 0)(lambda: fetch(i).wait())
        else:
            fetch(i).wait()
        o_ref[...] = slots[i % 2] + 1

    params = pltpu.CompilerParams(dimension_semantics=(semantics,))
    return called(kernel, [SLOTS, PAIR], BLOCK, grid=(STEPS,), compiler_params=params)


def ring(distance: int = 3) -> Launch:
    """X + 1; a ring of slots, with copies in flight for all but one."""

    def kernel(x_hbm: Any, o_hbm: Any) -> None:
        def scoped(slots: Any, out: Any, sems: Any, sent: Any) -> None:
            def fetch(i: Any) -> Any:
                at = i % distance
                return pltpu.make_async_copy(x_hbm.at[_rows(i)], slots.at[at], sems.at[at])

            def step(i: Any, carry: None) -> None:
                pl.when(i + distance - 1 < STEPS)(lambda: fetch(i + distance - 1).start())
                fetch(i).wait()
                out[...] = slots[i % distance] + 1
                send = pltpu.make_async_copy(out, o_hbm.at[_rows(i)], sent)
                send.start()
                send.wait()
                return carry

            for i in range(distance - 1):
                fetch(i).start()
            jax.lax.fori_loop(0, STEPS, step, None)

        one = pltpu.VMEM((ROWS, 128), jnp.float32)
        slots = pltpu.VMEM((distance, ROWS, 128), jnp.float32)
        sems = pltpu.SemaphoreType.DMA((distance,))
        pl.run_scoped(scoped, slots, one, sems, pltpu.SemaphoreType.DMA)

    return called(kernel, [])


def row_gather(bug: str = "") -> Launch:
    """X[IDS], eight copies on one semaphore."""

    def kernel(ids: Any, x_hbm: Any, o_ref: Any, sem: Any) -> None:
        def copy(r: Any) -> Any:
            return pltpu.make_async_copy(x_hbm.at[pl.ds(ids[r], 1)], o_ref.at[pl.ds(r, 1)], sem)

        for r in range(8):
            copy(r).start()
        if bug == "waits for too much":
            pltpu.make_async_copy(x_hbm.at[pl.ds(0, 16)], x_hbm.at[pl.ds(0, 16)], sem).wait()
        for r in range({"one wait": 1, "waits for too much": 0, "no wait": 0}.get(bug, 8)):
            copy(r).wait()

    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(1,),
        in_specs=[ANYWHERE],
        out_specs=pl.BlockSpec((8, 128), lambda i, ids: (0, 0)),
        scratch_shapes=[pltpu.SemaphoreType.DMA],
    )
    out = jax.ShapeDtypeStruct((8, 128), jnp.float32)
    return lambda x: pl.pallas_call(kernel, grid_spec=spec, out_shape=out)(IDS, x)


def halves(bug: str = "") -> Launch:
    """2 X; its halves are copied to two slots."""

    def kernel(x_hbm: Any, o_ref: Any, slots: Any, sems: Any) -> None:
        copies = [
            pltpu.make_async_copy(x_hbm.at[pl.ds(16 * at, 16)], slots.at[at], sems.at[at])
            for at in range(2)
        ]
        for copy in copies:
            copy.start()
        copies[0].wait()
        o_ref[pl.ds(0, 16)] = slots[0] * 2
        if bug != "no second wait":
            copies[1].wait()
        o_ref[pl.ds(16, 16)] = slots[1] * 2

    scratch = [pltpu.VMEM((2, 16, 128), jnp.float32), PAIR]
    return called(kernel, scratch, pl.BlockSpec((32, 128), lambda: (0, 0)))


def two_sizes(bug: str = "") -> Launch:
    """2 X; 24 rows and 8 rows of X come on two semaphores, or on one."""

    def kernel(x_hbm: Any, o_ref: Any, large: Any, small: Any, sems: Any) -> None:
        top = pltpu.make_async_copy(x_hbm.at[pl.ds(0, 24)], large, sems.at[0])
        second = sems.at[0 if bug else 1]
        rest = pltpu.make_async_copy(x_hbm.at[pl.ds(24, 8)], small, second)
        top.start()
        rest.start()
        if bug == "waits for the small one twice":
            rest.wait()
            rest.wait()
            o_ref[...] = jnp.zeros_like(o_ref)
            return
        rest.wait()
        o_ref[pl.ds(24, 8)] = small[...] * 2
        top.wait()
        o_ref[pl.ds(0, 24)] = large[...] * 2

    scratch = [pltpu.VMEM((24, 128), jnp.float32), pltpu.VMEM((8, 128), jnp.float32), PAIR]
    whole = pl.BlockSpec((32, 128), lambda: (0, 0))
    return called(kernel, scratch, whole)


def through_vmem(bug: str = "") -> Launch:
    """X, into a buffer and out of it."""

    def kernel(x_hbm: Any, o_hbm: Any, buffer: Any, sems: Any) -> None:
        into = pltpu.make_async_copy(x_hbm, buffer, sems.at[0])
        out = pltpu.make_async_copy(buffer, o_hbm, sems.at[1])
        if bug != "starts nothing":
            into.start()
        if bug == "stores before the wait":
            buffer[...] = jnp.zeros_like(buffer)
        if bug == "sends before the wait":
            out.start()
            into.wait()
        else:
            into.wait()
            if bug != "starts nothing":
                out.start()
        if bug != "leaves":
            out.wait()

    return called(kernel, [pltpu.VMEM(X.shape, jnp.float32), PAIR])


def pipelines(x: jax.Array) -> jax.Array:
    """X + 1; a pipeline over pairs of blocks, and in each a pipeline over its two blocks."""

    def kernel(x_hbm: Any, o_hbm: Any) -> None:
        def outer() -> None:
            i = pl.program_id(0)

            def inner(x_ref: Any, o_ref: Any) -> None:
                o_ref[...] = x_ref[...] + 1

            block = pl.BlockSpec((ROWS, 128), lambda j: (2 * i + j, 0))
            pipeline = pltpu.emit_pipeline(inner, grid=(2,), in_specs=[block], out_specs=[block])
            pipeline(x_hbm, o_hbm)

        pltpu.emit_pipeline(outer, grid=(2,))()

    return called(kernel, [])(x)


def over_a_mesh(x: jax.Array) -> jax.Array:
    """X + 1, by pl.kernel over a mesh of one core, in a pipeline."""

    def body(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] + 1

    def kernel(x_hbm: Any, o_hbm: Any) -> None:
        pipeline = pltpu.emit_pipeline(body, grid=(STEPS,), in_specs=[BLOCK], out_specs=[BLOCK])
        pipeline(x_hbm, o_hbm)

    return launched(kernel, jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def by_hand_over_a_mesh(x: jax.Array) -> jax.Array:
    """X + 1, by pl.kernel over a mesh of one core, with sync_copy and its own buffer."""

    def kernel(x_hbm: Any, o_hbm: Any) -> None:
        def scoped(buffer: Any) -> None:
            pltpu.sync_copy(x_hbm, buffer)
            buffer[...] = buffer[...] + 1
            pltpu.sync_copy(buffer, o_hbm)

        pl.run_scoped(scoped, pltpu.VMEM(x.shape, x.dtype))

    return launched(kernel, jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


#: Name -> launch, and what it returns.
RIGHT: dict[str, tuple[Launch, Any]] = {
    "double buffer": (double_buffer(), X + 1),
    "prefetch over the grid": (prefetch_over_grid(), X + 1),
    "ring of slots": (ring(), X + 1),
    "row gather": (row_gather(), X[IDS]),
    "halves": (halves(), 2 * X),
    "two sizes": (two_sizes(), 2 * X),
    "through vmem": (through_vmem(), X),
    "pipelines": (pipelines, X + 1),
    "over a mesh": (over_a_mesh, X + 1),
    "by hand over a mesh": (by_hand_over_a_mesh, X + 1),
}
