"""Evaluates index maps: block positions and prefetched cells by grid step.

Block positions are those of a pallas_call's operands. Prefetched cells are those that the index
maps read from the scalar-prefetch tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.extend import core
from jax.typing import ArrayLike

from pallascope.kernels.evaluator import Env, Evaluator, bind, retraced
from pallascope.kernels.host_values import computed
from pallascope.kernels.jaxprs import array_struct, called, discharged, memory_space, used
from pallascope.kernels.pallas_params import (
    BlockMapping,
    GridMapping,
    block_size,
    body,
    grid_mapping,
    is_pallas_call,
    mesh,
)
from pallascope.model import OutputBlocks

MAX_STEPS = 4_000_000  # as many take about a second, and 50 MB an operand
_MAX_WALK = 4096

IndexMap = Callable[..., list[jax.Array]]
Indices = list[np.ndarray]  # along each dimension, one for each step, or the same for all


@dataclass(frozen=True, slots=True)
class BlockPositions:
    """The start of each operand's block on each grid step.

    `grid` has None for an unknown size. `starts` aligns with the operands of the `KernelCall`:
    int32[steps, rank] in elements, in the order of the steps; squeezed dimensions count. None if
    there is no block (scalar prefetch, scratch), or if it can't be known: then `unknown` has the
    reason.
    """

    grid: tuple[int | None, ...]
    starts: tuple[np.ndarray | None, ...]
    unknown: tuple[str, ...]


def positions_of(
    kernel: core.JaxprEqn, values: Sequence[np.ndarray | None], most: int = MAX_STEPS
) -> BlockPositions:
    """Evaluate the index maps of all inputs and outputs of a kernel over its grid.

    A kernel over a mesh has no index maps. It copies its inputs itself; only arrays that the launch
    puts into VMEM or SMEM are moved for it, whole.

    `values` are those of its first operands, if known: sizes of dynamic grid dimensions,
    then scalar prefetch. A grid of more than `most` steps isn't evaluated.
    """
    if not is_pallas_call(kernel):
        return _over_a_mesh(kernel)
    mapping = grid_mapping(kernel)
    grid, tables = _concrete(mapping, values)
    specs = mapping.block_mappings[: mapping.num_inputs + mapping.num_outputs]
    sizes = [n for n in grid if n is not None]
    starts: Sequence[np.ndarray | str]
    if len(sizes) < len(grid):
        starts = ["the size of the grid is not known before the run"] * len(specs)
    elif (steps := math.prod(sizes)) > most:
        too_many = f"the grid has {steps:,} steps, and at most {most:,} are evaluated"
        starts = [too_many] * len(specs)
    else:
        starts = _starts(specs, sizes, tables)
    before = mapping.num_index_operands
    after = len(body(kernel).invars) - before - len(specs)
    known = [None if isinstance(start, str) else start for start in starts]
    reasons = [start if isinstance(start, str) else "" for start in starts]
    return BlockPositions(
        grid,
        (*[None] * before, *known, *[None] * after),
        (*[""] * before, *reasons, *[""] * after),
    )


def _over_a_mesh(kernel: core.JaxprEqn) -> BlockPositions:
    grid = tuple(mesh(kernel).shape.values())
    refs = body(kernel).invars
    moved = refs[: len(kernel.invars) + len(kernel.outvars)]
    starts = [
        np.zeros((math.prod(grid), len(array_struct(ref).shape)), np.int32)
        if memory_space(ref.aval) in ("vmem", "smem")
        else None
        for ref in moved
    ]
    scratch = len(refs) - len(moved)
    return BlockPositions(grid, (*starts, *[None] * scratch), ("",) * len(refs))


def walk_of(kernel: core.JaxprEqn, values: Sequence[np.ndarray | None] = ()) -> OutputBlocks | None:
    """The output block that each grid step of a kernel writes, in the order of the steps.

    `values` are those of sizes of dynamic grid dimensions, and of scalar prefetch, if known. None
    if they don't suffice, for overlapping blocks, without blocks, and beyond 4096 steps.
    """
    if not is_pallas_call(kernel):
        return None
    mapping = grid_mapping(kernel)
    positions = positions_of(kernel, values, _MAX_WALK)
    first = mapping.num_index_operands + mapping.num_inputs
    outputs = []
    for number in range(mapping.num_outputs):
        starts = positions.starts[first + number]
        shape = mapping.block_mappings[mapping.num_inputs + number].block_shape
        sizes = np.array([block_size(dim) or 1 for dim in shape], np.int32)
        if starts is None or (starts % sizes).any():
            return None
        outputs.append(tuple(map(tuple, (starts // sizes).tolist())))
    grid = [n for n in positions.grid if n is not None]
    return OutputBlocks(steps=tuple(np.ndindex(*grid)), outputs=tuple(outputs))


def _concrete(
    mapping: GridMapping, values: Sequence[np.ndarray | None]
) -> tuple[tuple[int | None, ...], list[np.ndarray | None]]:
    """The grid with the known sizes, and the values of the scalar-prefetch operands."""
    missing = sum(not isinstance(n, int) for n in mapping.grid) + mapping.num_index_operands
    padded = [*values, *[None] * (missing - len(values))][:missing]
    sizes = iter(padded)
    bounds = (n if isinstance(n, int) else next(sizes) for n in mapping.grid)
    grid = tuple(None if n is None else max(int(n), 0) for n in bounds)
    return grid, list(sizes)


def _starts(
    specs: Sequence[BlockMapping], grid: Sequence[int], tables: Sequence[np.ndarray | None]
) -> list[np.ndarray | str]:
    """Each operand's block starts, or the reason if they can't be known."""
    steps = math.prod(grid)
    if not steps:
        return [np.zeros((0, len(spec.block_shape)), np.int32) for spec in specs]
    columns = [column.reshape(-1) for column in np.indices(grid, np.int32)]
    maps = [_index_map(spec, columns, tables) for spec in specs]
    indices = _evaluated(specs, maps, columns)
    found: list[np.ndarray | str] = []
    for spec, index_map in zip(specs, maps, strict=True):
        if isinstance(index_map, str):
            found.append(index_map)
        else:
            along = next(indices) if callable(index_map) else index_map
            found.append(_scaled(spec, along, steps))
    return found


def _evaluated(
    specs: Sequence[BlockMapping],
    maps: Sequence[IndexMap | Indices | str],
    columns: Sequence[np.ndarray],
) -> Iterator[Indices | None]:
    """The indices of each index map that has to be evaluated; None on failure."""
    sound = [(m, len(spec.block_shape)) for spec, m in zip(specs, maps, strict=True) if callable(m)]
    if not sound:
        return
    # One program for all compiles faster than one for each.
    together = computed(lambda *at: [index for m, _ in sound for index in m(*at)], *columns)
    if together is None:
        yield from (computed(index_map, *columns) for index_map, _ in sound)
        return
    indices = iter(together)
    yield from ([next(indices) for _ in range(rank)] for _, rank in sound)


def _index_map(
    spec: BlockMapping, columns: Sequence[np.ndarray], tables: Sequence[np.ndarray | None]
) -> IndexMap | Indices | str:
    """An index map as a function of columns of grid indices, or the reason if there is none.

    The indices of a map that computes nothing are read off: compiling a program would take 20 ms.
    """
    kinds = {type(dim).__name__ for dim in spec.block_shape}
    if strange := sorted(kinds - {"int", "NoneType", "Blocked", "Element", "Squeezed"}):
        return f"pl.{strange[0]} blocks are cut at run time"
    jaxpr, grid_rank = spec.index_map_jaxpr.jaxpr, len(columns)
    if (indices := _read_off(jaxpr, len(spec.block_shape), columns)) is not None:
        return indices
    # The values of tables that the index map doesn't use don't matter.
    looked_at = used(jaxpr)
    contents: list[np.ndarray] = []
    for var, table in zip(jaxpr.invars[grid_rank:], tables, strict=True):
        if table is None and id(var) in looked_at:
            return "its index map reads scalar prefetch whose contents are not known before the run"
        struct = array_struct(var)
        contents.append(np.zeros(struct.shape, struct.dtype) if table is None else table)
    # Scalar prefetch reaches an index map as Refs; discharged, they are arrays like any others.
    without_promises = {"multiple_of": lambda _, inputs: inputs}  # jax can't vmap it
    function = core.jaxpr_as_fun(retraced(discharged(spec.index_map_jaxpr), without_promises))

    def at(*indices: jax.Array) -> list[jax.Array]:
        return function(*indices, *contents)[: len(spec.block_shape)]

    return jax.vmap(at) if grid_rank else at


def _read_off(jaxpr: core.Jaxpr, rank: int, columns: Sequence[np.ndarray]) -> Indices | None:
    """The indices of a map such as (i, 0): grid indices and numbers; None if it computes."""
    if jaxpr.eqns:
        return None
    known = dict(zip(map(id, jaxpr.invars), columns, strict=False))
    found = [
        np.asarray(each.val) if isinstance(each, core.Literal) else known.get(id(each))
        for each in jaxpr.outvars[:rank]
    ]
    indices = [index for index in found if index is not None]
    return indices if len(indices) == len(found) else None


def _scaled(spec: BlockMapping, indices: Indices | None, steps: int) -> np.ndarray | str:
    """Starts in elements: an index map counts blocks, but elements along an Element dimension."""
    if indices is None:
        return "its index map can't be evaluated without a TPU"
    starts = np.empty((steps, len(indices)), np.int32)
    for axis, (dim, index) in enumerate(zip(spec.block_shape, indices, strict=True)):
        counts_elements = isinstance(dim, pl.Element)
        starts[:, axis] = index * (1 if counts_elements else block_size(dim) or 1)
    return starts


@dataclass(frozen=True, slots=True)
class PrefetchRead:
    """One read of one table in one operand's index map.

    `operand` and `table` are positions among the operands of the `KernelCall`. `cells` are
    int64[steps], row-major positions in the table, for the first steps of the grid; -1 on steps on
    which a condition keeps the index map from reading. None if the cells can't be known.
    """

    operand: int
    table: int
    cells: np.ndarray | None


def prefetch_reads(
    pallas_call: core.JaxprEqn,
    grid: Sequence[int],
    tables: Sequence[np.ndarray | None],
    most: int,
) -> tuple[PrefetchRead, ...]:
    """The reads of a pallas_call's index maps on the first `most` steps of its concrete grid.

    `tables` are the values of scalar prefetch. An index map's cells can't be known if it reads a
    table of unknown contents, in a loop, or several cells at a time.
    """
    mapping = grid_mapping(pallas_call)
    steps = min(math.prod(grid), most)
    if not steps:
        return ()
    numbers = np.unravel_index(np.arange(steps), tuple(grid)) if grid else ()
    columns = [column.astype(np.int32) for column in numbers]
    specs = mapping.block_mappings[: mapping.num_inputs + mapping.num_outputs]
    return tuple(
        PrefetchRead(
            operand,
            table,
            None if cells is None else np.broadcast_to(cells, steps).astype(np.int64),
        )
        for operand, spec in enumerate(specs, mapping.num_index_operands)
        for table, cells in _reads(spec.index_map_jaxpr, columns, tables)
    )


def _reads(
    index_map: core.ClosedJaxpr,
    columns: Sequence[np.ndarray],
    tables: Sequence[np.ndarray | None],
) -> list[tuple[int, np.ndarray | None]]:
    """The table and the cells of each read of one index map; None for cells that are unclear."""
    looked_at = used(index_map.jaxpr)
    refs = index_map.jaxpr.invars[len(columns) :]
    read = [number for number, var in enumerate(refs) if id(var) in looked_at]
    if not read:
        return []
    numbers: list[int] = []

    def at(*indices: jax.Array) -> list[jax.Array]:
        reader = _IndexMapReader()
        stand_ins = [_Table(number, value) for number, value in enumerate(tables)]
        reader.evaluate(index_map, [*indices, *stand_ins])
        numbers[:] = reader.tables
        return reader.cells

    cells = computed(jax.vmap(at) if columns else at, *columns)
    if cells is None:
        return [(number, None) for number in read]
    return list(zip(numbers, cells, strict=True))


@dataclass(frozen=True, slots=True)
class _Table:
    """Stands for the Ref of a table while an index map is evaluated."""

    number: int
    value: np.ndarray | None


_Value = ArrayLike | _Table


class _Unclear(Exception):
    """The index map uses a table in a way for which the cells can't be known."""


class _IndexMapReader(Evaluator):
    """Evaluates an index map; records the table and the cell of each read. Raises _Unclear."""

    def __init__(self) -> None:
        self.tables: list[int] = []
        self.cells: list[jax.Array] = []
        self._reached: jax.Array = jnp.bool_(True)  # whether this part of the index map runs

    def operation(self, eqn: core.JaxprEqn, inputs: list[_Value], env: Env) -> Sequence[_Value]:
        if not any(isinstance(value, _Table) for value in inputs):
            return bind(eqn, inputs)
        name = eqn.primitive.name
        if name == "get" and isinstance(table := inputs[0], _Table):
            transforms = jax.tree.unflatten(eqn.params["tree"], inputs[1:])
            if len(transforms) != 1:
                raise _Unclear(name)
            return [self._read(table, [jnp.asarray(index) for index in transforms[0].indices])]
        if (jaxpr := called(eqn)) is not None:
            return self.evaluate(jaxpr, inputs)
        if name == "cond" and not isinstance(inputs[0], _Table):
            return self._branches(eqn.params["branches"], jnp.asarray(inputs[0]), inputs[1:])
        raise _Unclear(name)

    def _branches(
        self, branches: Sequence[core.ClosedJaxpr], which: jax.Array, inputs: Sequence[_Value]
    ) -> Sequence[_Value]:
        """Evaluate all branches of a condition, of which one runs."""
        reached, which = self._reached, jnp.clip(which.astype(jnp.int32), 0, len(branches) - 1)
        results: list[list[_Value]] = []
        for number, branch in enumerate(branches):
            self._reached = reached & (which == number)
            results.append(self.evaluate(branch, inputs))
        self._reached = reached
        columns = list(zip(*results, strict=True))
        if any(isinstance(value, _Table) for column in columns for value in column):
            raise _Unclear("cond")
        return [jax.lax.select_n(which, *map(jnp.asarray, column)) for column in columns]

    def _read(self, table: _Table, indices: Sequence[jax.Array]) -> jax.Array:
        """The cell of a table at scalar indices."""
        if table.value is None:
            raise _Unclear("get")
        shape = table.value.shape
        if any(index.ndim for index in indices) or len(indices) != len(shape):
            raise _Unclear("get")
        inside = [jnp.clip(at, 0, size - 1) for at, size in zip(indices, shape, strict=True)]
        cell = jnp.ravel_multi_index(tuple(inside), shape, mode="clip") if shape else jnp.int32(0)
        self.tables.append(table.number)
        self.cells.append(jnp.where(self._reached, cell, -1))
        return jnp.asarray(table.value).reshape(-1)[cell]
