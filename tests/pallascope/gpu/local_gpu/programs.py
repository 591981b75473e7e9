"""Small programs for the CPU, which stand for those of a GPU: what runs them is the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pallascope.model import Array
from pallascope.tools.arrays import from_numpy
from pallascope.tpu.hlo import LoweredProgram, program_from_export

X = np.arange(256, dtype=np.float32).reshape(2, 128)


def program(function: Callable[..., Any], *inputs: Any) -> LoweredProgram:
    """Lowered for the CPU, for inputs like these."""
    shapes = [jax.ShapeDtypeStruct(np.shape(x), np.asarray(x).dtype) for x in inputs or (X,)]
    traced = jax.jit(lambda *arrays: jax.tree.leaves(function(*arrays)))
    return program_from_export(jax.export.export(traced, platforms=["cpu"])(*shapes))


def doubling() -> LoweredProgram:
    return program(lambda x: x + x)


def given(value: Any = X) -> Array:
    return from_numpy(np.asarray(value))


def halved(x: jax.Array) -> jax.Array:
    return jnp.where(x > 100, jnp.nan, x)
