"""Grids whose "parallel" dimensions stand anywhere, in the strict interpreter.

It wants them to come before all others, because it gives each simulated core one stretch of the
grid's steps. libtpu compiles them in any order. A TPU with two TensorCores gives each core one half
of a parallel dimension, and the core walks through what is left of the grid in its usual order:
with the semantics ("arbitrary", "parallel") both cores take every step along dimension 0. So here
does each simulated core, and the steps along each parallel dimension are shuffled as always. Grids
that the interpreter takes by itself are left to it.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from grader.kernels.jax_internals import UnsupportedJax
from grader.kernels.pallas_params import semantics_name

Size = int | jax.Array

_PATCHED = (
    "_get_parallel_dim_semantics",
    "_get_parallel_subgrid_size",
    "_get_randomized_grid_coordinates",
    "_get_grid_point",
)


@contextlib.contextmanager
def in_any_order() -> Iterator[None]:
    """Let the strict interpreter run grids with parallel dimensions behind others.

    Where jax keeps the replaced functions elsewhere, it refuses these grids as it did.
    """
    try:
        from grader.kernels.jax_internals import tpu_interpreter
    except UnsupportedJax:
        yield
        return
    usual = {name: getattr(tpu_interpreter, name, None) for name in _PATCHED}
    if None in usual.values():
        yield
        return
    with contextlib.ExitStack() as stack:
        for name, function in _replacements(usual).items():
            stack.callback(setattr, tpu_interpreter, name, usual[name])
            setattr(tpu_interpreter, name, function)
        yield


def _replacements(usual: dict[str, Any]) -> dict[str, Callable[..., Any]]:
    semantics_of, size_of, orders_of, point_of = (usual[name] for name in _PATCHED)

    def semantics(params: Any, rank: int) -> tuple[bool, ...]:
        kinds = params.dimension_semantics
        if kinds is None or len(kinds) != rank or not _is_mixed(found := _parallel(kinds)):
            return semantics_of(params, rank)
        return found

    def subgrid_size(parallel: tuple[bool, ...], grid: tuple[Size, ...]) -> Any:
        if not _is_mixed(parallel):
            return size_of(parallel, grid)
        axis = _shared([size if p else 0 for p, size in zip(parallel, grid, strict=True)])
        return 1 if axis is None else grid[axis]

    def orders(grid: tuple[Size, ...], params: Any, seed: int | None) -> Any:
        kinds = params.dimension_semantics
        found = orders_of(grid, params, seed)
        mixed = kinds is not None and _is_mixed(_parallel(kinds))
        return Orders(grid, found) if mixed else found

    def grid_point(loop_indices: Sequence[Any], found: Any) -> jax.Array:
        if not isinstance(found, Orders):
            return point_of(loop_indices, found)
        return found.point(loop_indices)

    return dict(zip(_PATCHED, (semantics, subgrid_size, orders, grid_point), strict=True))


def _parallel(kinds: Sequence[object]) -> tuple[bool, ...]:
    return tuple(semantics_name(kind) == "parallel" for kind in kinds)


def _is_mixed(parallel: Sequence[bool]) -> bool:
    """Whether a parallel dimension stands behind one that is not."""
    return list(parallel) != sorted(parallel, reverse=True)


def _shared(sizes: Sequence[Any]) -> int | None:
    """The dimension that two cores share, of those with a size; None where the first takes all.

    Of a dimension of two steps each core would take one, and no block that a TPU with one core
    leaves and visits again would be left.
    """
    return next((axis for axis, size in enumerate(sizes) if size > 2), None)


class Orders(tuple[jax.Array, ...]):
    """The order of steps along each parallel dimension, and the grid in which they are taken."""

    grid: tuple[Size, ...]

    def __new__(cls, grid: tuple[Size, ...], orders: Sequence[jax.Array]) -> Orders:
        made = super().__new__(cls, orders)
        made.grid = grid
        return made

    def point(self, loop_indices: Sequence[Any]) -> jax.Array:
        """int32[rank]: which point of the grid is step `loop_indices` of the usual order.

        The first core's steps come before the second's.
        """
        indices = self._on_its_core(loop_indices)
        point = [
            order[index] if order.size else index
            for index, order in zip(indices, self, strict=True)
        ]
        return jnp.array(point, jnp.int32)

    def _on_its_core(self, loop_indices: Sequence[Any]) -> list[Any]:
        """The indices of a step, before they are shuffled."""
        axis = _shared([order.size for order in self])
        if axis is None:
            return list(loop_indices)
        size: Any = self.grid[axis]
        first_half = (size + 1) // 2
        first = math.prod((*self.grid[:axis], first_half, *self.grid[axis + 1 :]))
        step: Any = 0
        for index, length in zip(loop_indices, self.grid, strict=True):
            step = step * length + index
        second = step >= first
        half = jnp.where(second, size - first_half, first_half)
        indices = _unraveled(
            step - jnp.where(second, first, 0), (*self.grid[:axis], half, *self.grid[axis + 1 :])
        )
        indices[axis] += jnp.where(second, first_half, 0)
        return indices


def _unraveled(step: Any, grid: Sequence[Any]) -> list[Any]:
    indices = []
    for length in reversed(grid):
        indices.append(step % length)
        step = step // length
    return indices[::-1]
