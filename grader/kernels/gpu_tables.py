"""Tables of whole numbers that a launch's kernels are given: which group, which block, how many.

What a thread does may depend on them. They are known where the launch's own inputs are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.extend import core

from grader.kernels.gpu_calls import is_for_gpus
from grader.kernels.jaxprs import Shaped, inner_jaxprs

#: A larger array is no table.
_MOST = 65_536


@dataclass(frozen=True, slots=True)
class Table:
    """An array of whole numbers in global memory, as a kernel finds it."""

    numbers: np.ndarray

    def at(self, transforms: Sequence[Any], value: Callable[[Any], int | None]) -> int | None:
        """One number of it, where that is what is read; `value` resolves what indexes it."""
        indexers = [each for each in transforms if hasattr(each, "indices")]
        if len(indexers) != 1:
            return None
        index = tuple(value(each) for each in indexers[0].indices if not hasattr(each, "size"))
        if len(index) != self.numbers.ndim or None in index:
            return None
        inside = all(
            0 <= i < n for i, n in zip(index, self.numbers.shape, strict=True) if i is not None
        )
        return int(self.numbers[index]) if inside else None


def tables_of(
    closed: core.ClosedJaxpr, values: Sequence[Any]
) -> Mapping[int, tuple[Table | None, ...]]:
    """For each kernel, by the id of its equation, its inputs: tables, and None for the rest.

    `values` are the launch's inputs. Without a table among them nothing is computed.
    """
    given = [_is_table(var) for var in closed.jaxpr.invars]
    if len(values) != len(given) or not any(given):
        return {}
    found: dict[int, list[int | None]] = {}

    def computed(*tables: Any) -> list[Any]:
        rest, traced = iter(tables), _Walk()
        traced.walk(closed.jaxpr, closed.consts, [next(rest) if of else None for of in given])
        found.update(traced.kernels)
        return traced.tables

    on = [np.asarray(value) for value, of in zip(values, given, strict=True) if of]
    with jax.default_device(jax.devices("cpu")[0]):
        tables = [Table(np.asarray(table)) for table in jax.jit(computed)(*on)]
    return {
        kernel: tuple(None if n is None else tables[n] for n in places)
        for kernel, places in found.items()
    }


class _Walk:
    """Computes what depends on tables alone, and notes which of it each kernel is given."""

    def __init__(self) -> None:
        self.tables: list[Any] = []
        self.kernels: dict[int, list[int | None]] = {}

    def walk(self, jaxpr: core.Jaxpr, consts: Sequence[Any], given: Sequence[Any]) -> None:
        known = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *given], strict=False))
        for eqn in jaxpr.eqns:
            values = [
                known.get(atom) if isinstance(atom, core.Var) else atom.val for atom in eqn.invars
            ]
            inner = inner_jaxprs(eqn)
            if is_for_gpus(eqn):
                self.kernels[id(eqn)] = [
                    self._noted(a, v) for a, v in zip(eqn.invars, values, strict=True)
                ]
            elif all(value is not None for value in values) and all(map(_is_table, eqn.outvars)):
                known.update(zip(eqn.outvars, _bound(eqn, values), strict=True))
            elif len(inner) == 1:
                self.walk(inner[0], (), values[len(values) - len(inner[0].invars) :])

    def _noted(self, atom: Any, value: Any) -> int | None:
        if value is None or not _is_table(atom):
            return None
        self.tables.append(value)
        return len(self.tables) - 1


def _bound(eqn: core.JaxprEqn, values: Sequence[Any]) -> list[Any]:
    results: Any = eqn.primitive.bind(*values, **eqn.primitive.get_bind_params(eqn.params))
    return list(results) if eqn.primitive.multiple_results else [results]


def _is_table(atom: Any) -> bool:
    aval = atom.aval
    if not isinstance(aval, Shaped) or np.dtype(aval.dtype).kind not in "iub":
        return False
    return int(np.prod(aval.shape)) <= _MOST
