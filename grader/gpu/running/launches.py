"""A program as something to call on a device, also into memory that was filled before.

Results go where arrays lay that are donated: so they lie between guards, and hold NaN wherever
nothing is stored. Whether XLA puts them there directly, or copies them, its program shows.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from grader.gpu.programs import Program, exported_of
from grader.gpu.running.timing import Batch
from grader.model import Array
from grader.tools.arrays import dtype_of, to_numpy

_COPY = re.compile(r"= [^=\n]+? copy(?:-start)?\(")


def donated(program: Program, platform: str) -> tuple[Callable[..., list[Any]], bool]:
    """A function of arrays to be overwritten, then of the inputs; compiled.

    And whether results are stored there by the kernels themselves.
    """
    import jax

    exported = exported_of(program, platform)

    def into(spares: list[Any], *inputs: Any) -> list[Any]:
        return list(exported.call(*inputs))

    def structs(types: Sequence[Any]) -> list[Any]:
        return [jax.ShapeDtypeStruct(t.shape, dtype_of(t.dtype)) for t in types]

    launched = jax.jit(into, donate_argnums=0, keep_unused=True)
    compiled = launched.lower(structs(program.outputs), *structs(program.inputs)).compile()
    text = compiled.as_text() or ""
    return compiled, bool(text) and not _COPY.search(text)


def plain(program: Program, platform: str) -> Callable[..., list[Any]]:
    """The program as jax calls it."""
    import jax

    return jax.jit(exported_of(program, platform).call)


def contents(inputs: Sequence[Array], seed: int) -> list[np.ndarray]:
    """The inputs' values; of those that came without, normal deviates, or small integers."""
    random = np.random.default_rng(seed)
    return [_contents(array, random) for array in inputs]


def _contents(array: Array, random: np.random.Generator) -> np.ndarray:
    if array.data or 0 in array.shape:
        return to_numpy(array)
    dtype = dtype_of(array.dtype)
    if dtype.kind in "iu":
        return random.integers(0, 100, array.shape).astype(dtype)
    return random.standard_normal(array.shape, np.float32).astype(dtype)


def batch_of(function: Callable[..., Any], inputs: Sequence[Any]) -> Batch:
    """Enqueue so many launches, wait for the last; results of others are freed as they end."""
    import jax

    def run(launches: int) -> float:
        begun = time.perf_counter()
        result: Any = None
        for _ in range(launches):
            result = function(*inputs)
        jax.block_until_ready(result)
        return time.perf_counter() - begun

    return run


def floor(device: Any) -> Batch:
    """The same of a program that does next to nothing: what it takes to enqueue one."""
    import jax

    one = jax.device_put(np.zeros(1, np.float32), device)
    return batch_of(jax.jit(lambda x: x + 1), [one])


def distance(own: Any, par: Any) -> float:
    """The largest difference, as a share of par's largest element; infinite where only one side is
    NaN."""
    import jax

    return float(jax.jit(_distance)(own, par)) if own.size else 0.0


def _distance(own: Any, par: Any) -> Any:
    import jax.numpy as jnp

    a, b = own.astype(jnp.float32), par.astype(jnp.float32)
    strange = jnp.isnan(a) != jnp.isnan(b)
    apart = jnp.where(jnp.isnan(a) | (a == b), 0, jnp.abs(a - b))
    largest = jnp.max(jnp.where(jnp.isfinite(b), jnp.abs(b), 0))
    share = jnp.max(apart) / jnp.where(largest > 0, largest, 1)
    return jnp.where(jnp.any(strange), jnp.inf, share)
