"""Which cells of the scalar-prefetch tables the index maps read, grid step by grid step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from grader.kernels.known import computed

Values = np.ndarray[Any, Any]

#: Primitives that call the jaxpr of this parameter with the inputs that they are given.
_CALLS = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr"}


@dataclass(frozen=True, slots=True)
class Read:
    """One read of one table in one operand's index map.

    `operand` and `table` are positions among the operands of the `KernelCall`. `cells` are
    int64[steps], row-major positions in the table, for the first steps of the grid.
    """

    operand: int
    table: int
    cells: Values


def reads_of(
    eqn: Any, grid: Sequence[int], tables: Sequence[Values | None], most: int
) -> tuple[Read, ...]:
    """What the index maps of a pallas_call read on the first `most` steps of its concrete grid.

    `tables` are the values of scalar prefetch. An index map is left out that reads one of unknown
    contents, reads under a condition, or several cells at a time.
    """
    mapping = eqn.params["grid_mapping"]
    steps = min(math.prod(grid), most)
    if not steps:
        return ()
    numbers = np.unravel_index(np.arange(steps), tuple(grid)) if grid else ()
    columns = [column.astype(np.int32) for column in numbers]
    specs = mapping.block_mappings[: mapping.num_inputs + mapping.num_outputs]
    found: list[Read] = []
    for operand, spec in enumerate(specs, mapping.num_index_operands):
        for table, cells in _reads(spec.index_map_jaxpr, columns, tables):
            found.append(Read(operand, table, np.broadcast_to(cells, steps).astype(np.int64)))
    return tuple(found)


def _reads(
    index_map: Any, columns: Sequence[Values], tables: Sequence[Values | None]
) -> list[tuple[int, Values]]:
    """The table and the cells of each read of one index map."""
    refs = {id(var) for var in index_map.jaxpr.invars[len(columns) :]}
    if not any(id(var) in refs for eqn in index_map.jaxpr.eqns for var in eqn.invars):
        return []
    which: list[int] = []

    def at(*indices: Any) -> list[Any]:
        reader = _Reader()
        held = [_Table(number, value) for number, value in enumerate(tables)]
        reader.evaluate(index_map.jaxpr, index_map.consts, [*indices, *held])
        which[:] = reader.tables
        return reader.cells

    cells = computed(jax.vmap(at) if columns else at, *columns)
    return list(zip(which, cells, strict=True)) if cells else []


@dataclass(frozen=True, slots=True)
class _Table:
    """What stands for the Ref of a table while an index map is evaluated."""

    number: int
    value: Values | None


class _Unclear(Exception):
    """The index map does something with a table whose cells are not told apart here."""


class _Reader:
    """Evaluates an index map; keeps, read by read, the table and the cell."""

    def __init__(self) -> None:
        self.tables: list[int] = []
        self.cells: list[Any] = []

    def evaluate(self, jaxpr: Any, consts: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
        """The results of a jaxpr, whose inputs are numbers and tables. Raises _Unclear."""
        names = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *inputs), strict=True))

        def value(var: Any) -> Any:
            return var.val if isinstance(var, core.Literal) else names[var]

        for eqn in jaxpr.eqns:
            results = self._equation(eqn, [value(var) for var in eqn.invars])
            names.update(zip(eqn.outvars, results, strict=True))
        return [value(var) for var in jaxpr.outvars]

    def _equation(self, eqn: Any, inputs: list[Any]) -> Sequence[Any]:
        name = eqn.primitive.name
        if not any(isinstance(each, _Table) for each in inputs):
            results = eqn.primitive.bind(*inputs, **eqn.params)
            return results if eqn.primitive.multiple_results else [results]
        if name == "get":
            return [self._read(inputs[0], jax.tree.unflatten(eqn.params["tree"], inputs[1:]))]
        if name in _CALLS:
            inner = eqn.params[_CALLS[name]]
            return self.evaluate(inner.jaxpr, inner.consts, inputs)
        raise _Unclear(name)

    def _read(self, table: _Table, transforms: Sequence[Any]) -> Any:
        if table.value is None or len(transforms) != 1:
            raise _Unclear("get")
        indices = [jnp.asarray(index) for index in transforms[0].indices]
        shape = table.value.shape
        if any(index.ndim for index in indices) or len(indices) != len(shape):
            raise _Unclear("get")
        inside = [jnp.clip(at, 0, size - 1) for at, size in zip(indices, shape, strict=True)]
        cell = jnp.ravel_multi_index(tuple(inside), shape, mode="clip") if shape else jnp.int32(0)
        self.tables.append(table.number)
        self.cells.append(cell)
        return jnp.asarray(table.value).reshape(-1)[cell]
