"""Which cells of the scalar-prefetch tables the index maps read, grid step by grid step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jax.typing import ArrayLike

from grader.kernels.jaxprs import Atom
from grader.kernels.known_steps import computed
from grader.kernels.pallas_params import grid_mapping

#: Primitives that call the jaxpr of this parameter with the inputs that they are given.
_CALLS = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr"}


@dataclass(frozen=True, slots=True)
class PrefetchRead:
    """One read of one table in one operand's index map.

    `operand` and `table` are positions among the operands of the `KernelCall`. `cells` are
    int64[steps], row-major positions in the table, for the first steps of the grid; -1 in steps in
    which a condition keeps the index map from reading. None where it can't be told what is read.
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
    """What the index maps of a pallas_call read on the first `most` steps of its concrete grid.

    `tables` are the values of scalar prefetch. It can't be told what an index map reads that reads
    one of unknown contents, in a loop, or several cells at a time.
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
    used = {id(var) for eqn in index_map.jaxpr.eqns for var in eqn.invars}
    refs = index_map.jaxpr.invars[len(columns) :]
    read = [number for number, var in enumerate(refs) if id(var) in used]
    if not read:
        return []
    numbers: list[int] = []

    def at(*indices: jax.Array) -> list[jax.Array]:
        reader = _IndexMapReader()
        stand_ins = [_Table(number, value) for number, value in enumerate(tables)]
        reader.evaluate(index_map.jaxpr, index_map.consts, [*indices, *stand_ins])
        numbers[:] = reader.tables
        return reader.cells

    cells = computed(jax.vmap(at) if columns else at, *columns)
    if cells is None:
        return [(number, None) for number in read]
    return list(zip(numbers, cells, strict=True))


@dataclass(frozen=True, slots=True)
class _Table:
    """What stands for the Ref of a table while an index map is evaluated."""

    number: int
    value: np.ndarray | None


_Value = ArrayLike | _Table


class _Unclear(Exception):
    """The index map does something with a table whose cells are not told apart here."""


class _IndexMapReader:
    """Evaluates an index map; keeps, read by read, the table and the cell."""

    def __init__(self) -> None:
        self.tables: list[int] = []
        self.cells: list[jax.Array] = []
        self._reached: jax.Array = jnp.bool_(True)  # whether this part of the index map runs

    def evaluate(
        self, jaxpr: core.Jaxpr, consts: Sequence[ArrayLike], inputs: Sequence[_Value]
    ) -> list[_Value]:
        """The results of a jaxpr, whose inputs are numbers and tables. Raises _Unclear."""
        values: dict[core.Var, _Value] = dict(
            zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *inputs), strict=True)
        )

        def value(atom: Atom) -> _Value:
            return atom.val if isinstance(atom, core.Literal) else values[atom]

        for eqn in jaxpr.eqns:
            results = self._equation(eqn, [value(atom) for atom in eqn.invars])
            values.update(zip(eqn.outvars, results, strict=True))
        return [value(atom) for atom in jaxpr.outvars]

    def _equation(self, eqn: core.JaxprEqn, inputs: Sequence[_Value]) -> Sequence[_Value]:
        if not any(isinstance(value, _Table) for value in inputs):
            results = eqn.primitive.bind(*inputs, **eqn.params)
            return results if eqn.primitive.multiple_results else [results]
        name = eqn.primitive.name
        if name == "get" and isinstance(table := inputs[0], _Table):
            transforms = jax.tree.unflatten(eqn.params["tree"], inputs[1:])
            if len(transforms) != 1:
                raise _Unclear(name)
            return [self._read(table, [jnp.asarray(index) for index in transforms[0].indices])]
        if name in _CALLS:
            inner = eqn.params[_CALLS[name]]
            return self.evaluate(inner.jaxpr, inner.consts, inputs)
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
            results.append(self.evaluate(branch.jaxpr, branch.consts, inputs))
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
