"""A pallas_call equation as data: operands, blocks, grid, and where each step's blocks lie."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jax.extend import core

from grader.kernels.jaxprs import UnsupportedJax, primitives
from grader.kernels.refs import first_touches
from grader.model import ArrayType, KernelCall, Operand, Role, Walk

CALLBACKS = ("pure_callback", "io_callback")
MAX_STEPS = 4096


def kernel_call(eqn: Any) -> KernelCall:
    """One pallas_call equation as data. Raises UnsupportedJax where its parameters have moved."""
    try:
        mapping, kernel = eqn.params["grid_mapping"], eqn.params["jaxpr"]
        return KernelCall(
            name=str(eqn.params.get("name") or "kernel"),
            grid=tuple(n if isinstance(n, int) else None for n in mapping.grid),
            operands=tuple(_operands(mapping, kernel)),
            parallel=_parallel(eqn.params.get("compiler_params")),
            callbacks=tuple(n for n in primitives(kernel) if n in CALLBACKS),
        )
    except (AttributeError, KeyError) as error:
        raise UnsupportedJax(f"a parameter of pallas_call ({error})") from error


def _parallel(compiler_params: Any) -> tuple[int, ...]:
    semantics = getattr(compiler_params, "dimension_semantics", None) or ()
    return tuple(axis for axis, kind in enumerate(semantics) if str(kind).endswith("parallel"))


def _operands(mapping: Any, kernel: Any) -> Iterator[Operand]:
    names = _names(kernel)
    touches = first_touches(kernel)
    prefetch, inputs = mapping.num_index_operands, mapping.num_inputs
    outputs = mapping.num_outputs
    for position, var in enumerate(kernel.invars):
        aval = getattr(var.aval, "inner_aval", var.aval)
        block = position - prefetch
        if 0 <= block < inputs + outputs:
            spec = mapping.block_mappings[block]
            role = Role.INPUT if block < inputs else Role.OUTPUT
            array = array_type(spec.array_aval)
            sizes = tuple(_size(dim) for dim in spec.block_shape)
            space = _space(spec.transformed_block_aval)
            moves = _moves(spec.index_map_jaxpr.jaxpr)
            axes = _axes(spec.index_map_jaxpr.jaxpr, len(mapping.grid))
        else:
            role = Role.PREFETCH if position < prefetch else Role.SCRATCH
            array = ArrayType(_dtype_name(aval), tuple(getattr(aval, "shape", ())))
            sizes, space, moves, axes = array.shape, _space(var.aval), False, ()
        yield Operand(
            name=names[position],
            role=role,
            array=array,
            block=sizes,
            space=space,
            moves=moves,
            axes=axes,
            first=touches[position],
        )


def _names(kernel: Any) -> list[str]:
    given = getattr(kernel.debug_info, "arg_names", None) or ()
    return [
        str(given[i]) if i < len(given) and given[i] else f"operand {i}"
        for i in range(len(kernel.invars))
    ]


def _size(dim: Any) -> int | None:
    """A block's size along one dimension, in elements; None where it is squeezed."""
    if dim is None or type(dim).__name__ == "Squeezed":
        return None
    return dim if isinstance(dim, int) else int(dim.block_size)


def _moves(index_map: Any) -> bool:
    return any(getattr(var, "val", None) != 0 for var in index_map.outvars)


def _axes(index_map: Any, grid_rank: int) -> tuple[int, ...]:
    """The grid dimensions on which an index map's results depend."""
    sources = {id(var): {axis} for axis, var in enumerate(index_map.invars[:grid_rank])}
    for eqn in index_map.eqns:
        seen = set().union(*(sources.get(id(var), set()) for var in eqn.invars))
        sources.update((id(var), seen) for var in eqn.outvars)
    return tuple(sorted(set().union(*(sources.get(id(var), set()) for var in index_map.outvars))))


def _space(aval: Any) -> str:
    space = getattr(aval, "memory_space", None)
    return str(getattr(space, "value", space) or "default")


def array_type(aval: Any) -> ArrayType:
    """An abstract value's dtype and shape."""
    return ArrayType(_dtype_name(aval), tuple(int(n) for n in aval.shape))


def _dtype_name(aval: Any) -> str:
    dtype = getattr(aval, "dtype", None)
    return str(getattr(dtype, "name", dtype))


def walk_of(eqn: Any) -> Walk | None:
    """Evaluate a pallas_call's output index maps over its grid, in the order of the grid steps.

    None for a dynamic grid, for index maps that read scalar prefetch, and beyond MAX_STEPS.
    """
    mapping = eqn.params["grid_mapping"]
    sizes = [n if isinstance(n, int) else 0 for n in mapping.grid]
    count = int(np.prod(sizes)) if sizes else 1
    dynamic = any(not isinstance(n, int) for n in mapping.grid)
    if mapping.num_index_operands or dynamic or count > MAX_STEPS:
        return None
    if not count:
        return Walk(steps=(), outputs=((),) * mapping.num_outputs)
    steps = list(itertools.product(*map(range, sizes)))
    columns = [np.array(column, np.int32) for column in zip(*steps, strict=True)]
    outputs = mapping.block_mappings[mapping.num_inputs : mapping.num_inputs + mapping.num_outputs]
    visited = [_visited(spec, columns, count) for spec in outputs]
    known = tuple(blocks for blocks in visited if blocks is not None)
    return Walk(steps=tuple(steps), outputs=known) if len(known) == len(visited) else None


def _visited(
    spec: Any, columns: list[np.ndarray[Any, Any]], count: int
) -> tuple[tuple[int, ...], ...] | None:
    """The block indices of one operand, step by step; None where blocks overlap."""
    function = core.jaxpr_as_fun(spec.index_map_jaxpr)
    if columns:
        results = [np.asarray(value) for value in jax.jit(jax.vmap(function))(*columns)]
    else:
        results = [np.full(count, int(value)) for value in function()]
    # An index map counts blocks, but along an Element dimension elements.
    units = [_size(dim) or 1 if _counts_elements(dim) else 1 for dim in spec.block_shape]
    pairs = list(zip(results, units, strict=True))
    if any((value % unit).any() for value, unit in pairs):
        return None
    return tuple(tuple(int(value[step]) // unit for value, unit in pairs) for step in range(count))


def _counts_elements(dim: Any) -> bool:
    return type(dim).__name__ == "Element"
