"""Traces to carry: of solutions, of kernels that the tests already hold, of small ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.extend import core

from pallascope.kernels.lowering import for_chip
from pallascope.kernels.serialization import dumped, loaded
from pallascope.model import Axes

X = np.arange(256 * 128, dtype=np.float32).reshape(256, 128)
HBM = pl.BlockSpec(memory_space=pl.ANY)
ROWS = pl.BlockSpec((64, 128), lambda i: (i, 0))


def traced(function: Callable[..., Any], *args: Any, axes: Axes = ()) -> core.ClosedJaxpr:
    """A launch function's trace, as on a TPU v5e, or on a mesh of such."""
    with for_chip("TPU v5 lite", 1, axes):
        return jax.jit(function).trace(*args).jaxpr


def carried(closed: core.ClosedJaxpr, axes: Axes = ()) -> core.ClosedJaxpr:
    """The trace as another process has it, which reads it for the same chip."""
    with for_chip("TPU v5 lite", 1, axes):
        return loaded(dumped(closed))


def lowered(closed: core.ClosedJaxpr, axes: Axes = ()) -> str:
    """What a trace becomes for a TPU: the Mosaic modules, with their debug locations, and all."""
    args = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in closed.in_avals]
    with for_chip("TPU v5 lite", 1, axes):
        try:
            program = jax.jit(core.jaxpr_as_fun(closed)).trace(*args)
            return program.lower(lowering_platforms=("tpu",)).as_text(debug_info=True)
        except Exception as error:
            return f"{type(error).__name__}: {error}"


def same(traces: Sequence[core.ClosedJaxpr], axes: Axes = ()) -> bool:
    """Whether all become the same, byte for byte. One line calls, as locations hold it too."""
    return len({lowered(closed, axes) for closed in traces}) == 1


def mosaic(text: str) -> list[str]:
    """The Mosaic modules of a lowered program, as it holds them."""
    return re.findall(r"\\22body\\22: \\22([^\\]*)", text)


def run(closed: core.ClosedJaxpr, *args: Any) -> np.ndarray:
    """The first result of a trace."""
    return np.asarray(jax.jit(core.jaxpr_as_fun(closed))(*args)[0])


def doubling(interpret: Any = False, **options: Any) -> Callable[..., Any]:
    """A launch that doubles X, block by block."""

    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] * 2

    def launch(x: Any) -> Any:
        specs = {"in_specs": [ROWS], "out_specs": ROWS, **options}
        return pl.pallas_call(kernel, grid=(4,), out_shape=like(x), interpret=interpret, **specs)(x)

    return launch


def like(x: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def one_core() -> Any:
    """A mesh of one TensorCore."""
    mesh: Any = getattr(pltpu, "TensorCoreMesh", None)
    return mesh(axis_name="c", num_cores=1) if mesh else pltpu.create_tensorcore_mesh("c")


def by_pl_kernel(x: Any) -> Any:
    """Doubles by `pl.kernel`, with copies by hand."""

    @pl.kernel(
        out_type=like(x), mesh=one_core(), scratch_types=[pltpu.VMEM((256, 128), jnp.float32)]
    )
    def kernel(x_ref: Any, o_ref: Any, buffer: Any) -> None:
        pltpu.sync_copy(x_ref, buffer)
        buffer[...] = buffer[...] * 2
        pltpu.sync_copy(buffer, o_ref)

    call: Any = kernel
    return call(x)


def by_core_map(x: Any) -> Any:
    """Doubles by `pl.core_map`."""

    def in_place(refs: Any) -> None:
        x_ref, o_ref = refs

        @pl.core_map(one_core())
        def _() -> None:
            def body(buffer: Any) -> None:
                pltpu.sync_copy(x_ref, buffer)
                buffer[...] = buffer[...] * 2
                pltpu.sync_copy(buffer, o_ref)

            pl.run_scoped(body, pltpu.VMEM((256, 128), jnp.float32))

    return pl.run_state(in_place)((x, jnp.zeros_like(x)))[1]


def by_pipeline(x: Any) -> Any:
    """Doubles by `emit_pipeline` within a kernel."""

    def inner(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] * 2

    def body(x_ref: Any, o_ref: Any) -> None:
        three = pl.BlockSpec((64, 128), lambda i: (i, 0), pipeline_mode=pl.Buffered(3))
        pltpu.emit_pipeline(inner, grid=(4,), in_specs=[three], out_specs=[ROWS])(x_ref, o_ref)

    return pl.pallas_call(body, in_specs=[HBM], out_specs=HBM, out_shape=like(x))(x)


@jax.custom_vjp
def with_own_rules(x: Any) -> Any:
    """Doubles, with rules of its own for its derivative."""
    return doubling()(x)


with_own_rules.defvjp(lambda x: (doubling()(x), None), lambda _, g: (2 * g,))

#: Ways to launch a kernel that doubles, each nested in something else.
NESTED: dict[str, Callable[..., Any]] = {
    "pallas_call": doubling(),
    "jit": jax.jit(doubling()),
    "scan": lambda x: jax.lax.scan(lambda c, _: (doubling()(c) / 2, None), 2 * x, None, 3)[0],
    "cond": lambda x: jax.lax.cond(x[0, 0] == 0, jax.jit(doubling()), lambda v: v, x),
    "while": lambda x: jax.lax.while_loop(lambda c: c[-1, -1] < 4e4, doubling(), x),
    "custom_vjp": with_own_rules,
    "remat": jax.checkpoint(doubling()),
    "pl.kernel": by_pl_kernel,
    "core_map": by_core_map,
    "emit_pipeline": by_pipeline,
}
