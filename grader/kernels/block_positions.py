"""Where the blocks of a pallas_call lie, grid step by grid step, from its index maps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.extend import core

from grader.kernels.jaxprs import UnsupportedJax
from grader.kernels.known import computed
from grader.model import Walk

MAX_STEPS = 4_000_000  # as many take about a second, and 50 MB an operand
_MAX_WALK = 4096

Values = np.ndarray[Any, Any]
IndexMap = Callable[..., list[Any]]


@dataclass(frozen=True, slots=True)
class Blocks:
    """Where each operand's block starts on each grid step.

    `grid` has None for a size that is not known. `starts` aligns with the operands of the
    `KernelCall`: int32[steps, rank] in elements, the steps in the order in which they run; a
    squeezed dimension counts. None where there is no block (scalar prefetch, scratch), or where it
    can't be known: then `unknown` says why.
    """

    grid: tuple[int | None, ...]
    starts: tuple[Values | None, ...]
    unknown: tuple[str, ...]


def blocks_of(eqn: Any, values: Sequence[Values | None], most: int = MAX_STEPS) -> Blocks:
    """Evaluate the index maps of all inputs and outputs of a pallas_call over its grid.

    `values` are those of its first operands, as far as known: sizes of dynamic grid dimensions,
    then scalar prefetch. A grid of more than `most` steps is not evaluated.
    """
    mapping = eqn.params["grid_mapping"]
    grid, tables = _concrete(mapping, values)
    steps = math.prod(n or 0 for n in grid)
    why = ""
    if None in grid:
        why = "the size of the grid is not known before the run"
    elif steps > most:
        why = f"the grid has {steps:,} steps, and {most:,} are the most that are looked at"
    specs = mapping.block_mappings[: mapping.num_inputs + mapping.num_outputs]
    found = [why] * len(specs) if why else _starts(specs, grid, tables)
    before = mapping.num_index_operands
    after = len(eqn.params["jaxpr"].invars) - before - len(found)
    known = [None if isinstance(f, str) else f for f in found]
    reasons = [f if isinstance(f, str) else "" for f in found]
    return Blocks(
        grid,
        (*[None] * before, *known, *[None] * after),
        (*[""] * before, *reasons, *[""] * after),
    )


def walk_of(eqn: Any, values: Sequence[Values | None] = ()) -> Walk | None:
    """Which output block each grid step of a pallas_call writes, in the order of the steps.

    `values` are those of sizes of dynamic grid dimensions, and of scalar prefetch, as far as known.
    None where they do not suffice, for overlapping blocks, and beyond 4096 steps.
    """
    mapping = eqn.params["grid_mapping"]
    blocks = blocks_of(eqn, values, _MAX_WALK)
    first = mapping.num_index_operands + mapping.num_inputs
    outputs = []
    for position in range(mapping.num_outputs):
        starts = blocks.starts[first + position]
        shape = mapping.block_mappings[mapping.num_inputs + position].block_shape
        sizes = np.array([block_size(dim) or 1 for dim in shape], np.int32)
        if starts is None or (starts % sizes).any():
            return None
        outputs.append(tuple(map(tuple, (starts // sizes).tolist())))
    grid = [n for n in blocks.grid if n is not None]
    return Walk(steps=tuple(np.ndindex(*grid)), outputs=tuple(outputs))


def block_size(dim: Any) -> int | None:
    """A block's size along one dimension, in elements; None where it is squeezed."""
    if dim is None or type(dim).__name__ == "Squeezed":
        return None
    return dim if isinstance(dim, int) else int(dim.block_size)


def _concrete(
    mapping: Any, values: Sequence[Values | None]
) -> tuple[tuple[int | None, ...], list[Values | None]]:
    """The grid with the known sizes put in, and the values of the scalar-prefetch operands."""
    missing = sum(not isinstance(n, int) for n in mapping.grid) + mapping.num_index_operands
    padded = [*values, *[None] * (missing - len(values))][:missing]
    sizes = iter(padded)
    bounds = (n if isinstance(n, int) else next(sizes) for n in mapping.grid)
    grid = tuple(None if n is None else max(int(n), 0) for n in bounds)
    return grid, list(sizes)


def _starts(
    specs: Sequence[Any], grid: Sequence[Any], tables: Sequence[Values | None]
) -> list[Values | str]:
    """Each operand's block starts, or why they can't be known."""
    steps = math.prod(grid)
    if not steps:
        return [np.zeros((0, len(spec.block_shape)), np.int32) for spec in specs]
    columns = [column.reshape(-1) for column in np.indices(grid, np.int32)]
    maps = [_index_map(spec, len(grid), tables) for spec in specs]
    sound = [index_map for index_map in maps if not isinstance(index_map, str)]
    # One program for all is compiled faster than one for each.
    together = computed(lambda *at: [index_map(*at) for index_map in sound], *columns)
    results = iter(together or [computed(index_map, *columns) for index_map in sound])
    return [
        index_map if isinstance(index_map, str) else _scaled(spec, next(results), steps)
        for spec, index_map in zip(specs, maps, strict=True)
    ]


def _index_map(spec: Any, grid_rank: int, tables: Sequence[Values | None]) -> IndexMap | str:
    """An index map as a function of columns of grid indices, or why there is none."""
    kinds = {type(dim).__name__ for dim in spec.block_shape}
    if strange := sorted(kinds - {"int", "NoneType", "Blocked", "Element", "Squeezed"}):
        return f"blocks of the kind pl.{strange[0]} are cut where the kernel runs"
    jaxpr = getattr(spec.index_map_jaxpr, "jaxpr", spec.index_map_jaxpr)
    # The values of tables that the index map does not look at do not matter.
    looked_at = {id(var) for eqn in jaxpr.eqns for var in eqn.invars}
    given: list[Any] = []
    for var, table in zip(jaxpr.invars[grid_rank:], tables, strict=True):
        if table is None and id(var) in looked_at:
            return "its index map reads scalar prefetch whose contents are not known before the run"
        given.append(np.zeros(var.aval.shape, var.aval.dtype) if table is None else table)
    # Scalar prefetch reaches an index map as Refs; discharged, they are arrays like any others.
    function = core.jaxpr_as_fun(_discharged(spec.index_map_jaxpr))

    def at(*indices: Any) -> list[Any]:
        return function(*indices, *given)[: len(spec.block_shape)]

    return jax.vmap(at) if grid_rank else at


def _discharged(index_map: Any) -> Any:
    try:
        from jax._src.state.discharge import discharge_state

        return discharge_state(index_map)
    except (ImportError, TypeError):
        raise UnsupportedJax("jax._src.state.discharge.discharge_state") from None


def _scaled(spec: Any, indices: list[Values] | None, steps: int) -> Values | str:
    """Starts in elements: an index map counts blocks, but along an Element dimension elements."""
    if indices is None:
        return "its index map can't be evaluated without a TPU"
    blocked = [type(dim).__name__ in ("Blocked", "int") for dim in spec.block_shape]
    starts = np.empty((steps, len(indices)), np.int32)
    for axis, (dim, index) in enumerate(zip(spec.block_shape, indices, strict=True)):
        starts[:, axis] = index * ((block_size(dim) or 1) if blocked[axis] else 1)
    return starts
