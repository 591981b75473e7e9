"""Values within a `shard_map`, of all devices at once: what is sent between them is known, too.

Each is one array, the mesh's axes before its own. An operation is vmapped over these axes, under
their names, so that collectives mean what they mean on devices.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core

from grader.kernels.sharding import axes_of
from grader.model import Axes

Run = Callable[..., Sequence[jax.Array]]


def mesh_of(eqn: core.JaxprEqn) -> Axes:
    """The axes that a `shard_map` makes, in the mesh's order."""
    named = axes_of(eqn)
    return tuple((name, size) for name, size in eqn.params["mesh"].shape.items() if name in named)


def parts_of(spec: Any, mesh: Axes) -> Run:
    """Cuts a whole array as a spec says."""

    def cut(array: jax.Array) -> list[jax.Array]:
        parts = []
        for place in itertools.product(*(range(size) for _, size in mesh)):
            at = dict(zip((name for name, _ in mesh), place, strict=True))
            part = array
            for dimension, entry in enumerate(spec):
                names = entry if isinstance(entry, tuple) else (entry,) * (entry is not None)
                for name in names:
                    size = part.shape[dimension] // dict(mesh)[name]
                    first = at[name] * size
                    part = jax.lax.slice_in_dim(part, first, first + size, axis=dimension)
            parts.append(part)
        return [jnp.stack(parts).reshape(*(size for _, size in mesh), *parts[0].shape)]

    return cut


def on_all(run: Run, mesh: Axes, stacked: Sequence[bool]) -> Run:
    """An operation on every device; inputs that are not `stacked` are the same for all."""

    def one(_: jax.Array, *inputs: jax.Array) -> Sequence[jax.Array]:
        return run(*inputs)

    mapped = one
    ways = tuple(0 if each else None for each in stacked)
    for name, _ in reversed(mesh):
        mapped = jax.vmap(mapped, in_axes=(0, *ways), axis_name=name)
    numbers = jnp.zeros([size for _, size in mesh])
    return lambda *inputs: mapped(numbers, *inputs)


def of_the_busiest(mesh: Axes, sizes: int) -> Run:
    """Of an array of all devices, the part of the one whose grid is the largest.

    The array comes first, and then so many sizes of the grid.
    """

    def picked(array: jax.Array, *grid: jax.Array) -> list[jax.Array]:
        devices = [size for _, size in mesh]
        assert len(grid) == sizes
        steps = jnp.ones(devices, jnp.int32)
        for size in grid:
            steps = steps * size.reshape(devices)
        each = array.reshape(-1, *array.shape[len(devices) :])
        return [each[jnp.argmax(steps.reshape(-1))]]

    return picked
