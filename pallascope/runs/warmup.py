"""Warms a worker up: runs and compiles a small kernel before it matters.

The kernel has the parts of most kernels: a grid of two axes, scratch, a matmul, `pl.when`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.typing import DTypeLike

from pallascope.kernels import TracedLaunch, for_chip
from pallascope.model import Mode
from pallascope.tpu import libtpu
from pallascope.tpu.chips import DEFAULT, named
from pallascope.tpu.libtpu import CompilerUnavailable
from pallascope.tpu.predict import predictions_of_launch

ROWS, LANES = 8, 128


def trace() -> None:
    """Trace the kernel and dump the trace."""
    _traced(jnp.float32).dumped()


def run(mode: Mode) -> None:
    """Run the kernel in a mode, on float32 and bfloat16."""
    for dtype in (jnp.float32, jnp.bfloat16):
        values = [np.ones((ROWS, LANES), dtype), np.ones((LANES, LANES), dtype)]
        _traced(dtype).run(values, mode)


def compile_for(chips: Sequence[str]) -> None:
    """Lower and compile the kernel for chips of these names, as far as this machine can."""
    for chip in chips:
        predictions_of_launch(_traced(jnp.float32, chip), _arguments(jnp.float32), chip)


def load_for(chips: Sequence[str]) -> None:
    """Load the compiler for chips of these names, if it is installed."""
    with contextlib.suppress(CompilerUnavailable):
        for chip in chips:
            libtpu.device(named(chip))


def _traced(dtype: DTypeLike, name: str = DEFAULT) -> TracedLaunch:
    chip = named(name)
    with for_chip(chip.kind, chip.cores):
        return TracedLaunch.of(_launch, _arguments(dtype), {})


def _arguments(dtype: DTypeLike) -> list[jax.ShapeDtypeStruct]:
    shapes = ((ROWS, LANES), (LANES, LANES))
    return [jax.ShapeDtypeStruct(shape, dtype) for shape in shapes]


def _kernel(x_ref, y_ref, o_ref, acc_ref):
    @pl.when(pl.program_id(1) == 0)
    def _clear():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(1) == pl.num_programs(1) - 1)
    def _store():
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)


def _launch(x, y):
    return pl.pallas_call(
        _kernel,
        grid=(1, 2),
        in_specs=[
            pl.BlockSpec((ROWS, LANES), lambda i, k: (0, 0)),
            pl.BlockSpec((LANES, LANES), lambda i, k: (0, 0)),
        ],
        out_specs=pl.BlockSpec((ROWS, LANES), lambda i, k: (0, 0)),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        scratch_shapes=[pltpu.VMEM((ROWS, LANES), jnp.float32)],
    )(x, y)
