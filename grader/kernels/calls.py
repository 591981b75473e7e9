"""A pallas_call equation as data: operands, blocks, grid."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from grader.kernels.block_positions import block_size
from grader.kernels.jaxprs import UnsupportedJax, memory_space, primitives
from grader.kernels.refs import first_touches
from grader.model import ArrayType, KernelCall, Operand, Role

CALLBACKS = ("pure_callback", "io_callback")


def kernel_call(eqn: Any) -> KernelCall:
    """One pallas_call equation as data. Raises UnsupportedJax where its parameters have moved."""
    try:
        mapping, kernel = eqn.params["grid_mapping"], eqn.params["jaxpr"]
        return KernelCall(
            name=str(eqn.params.get("name") or _function(kernel)),
            grid=tuple(n if isinstance(n, int) else None for n in mapping.grid),
            operands=tuple(_operands(mapping, kernel)),
            parallel=_parallel(eqn.params.get("compiler_params")),
            callbacks=tuple(n for n in primitives(kernel) if n in CALLBACKS),
        )
    except (AttributeError, KeyError) as error:
        raise UnsupportedJax(f"a parameter of pallas_call ({error})") from error


def _function(kernel: Any) -> str:
    """The name of the function that was traced: the source info reads "NAME at FILE:LINE"."""
    name = str(getattr(kernel.debug_info, "func_src_info", "") or "").partition(" ")[0]
    return name if name.isidentifier() else "kernel"


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
            sizes = tuple(block_size(dim) for dim in spec.block_shape)
            space = memory_space(spec.transformed_block_aval)
            moves = _moves(spec.index_map_jaxpr.jaxpr)
            axes = _axes(spec.index_map_jaxpr.jaxpr, len(mapping.grid))
            element = any(type(dim).__name__ == "Element" for dim in spec.block_shape)
            buffers = 1 if _stays(sizes, array, moves) else _buffers(spec.pipeline_mode)
        else:
            role = Role.PREFETCH if position < prefetch else Role.SCRATCH
            array = ArrayType(_dtype_name(aval), tuple(getattr(aval, "shape", ())))
            sizes, space, moves, axes = array.shape, memory_space(var.aval), False, ()
            buffers, element = 1, False
        yield Operand(
            name=names[position],
            role=role,
            array=array,
            block=sizes,
            space=space,
            moves=moves,
            axes=axes,
            first=touches[position],
            buffers=buffers,
            element=element,
        )


def _names(kernel: Any) -> list[str]:
    given = getattr(kernel.debug_info, "arg_names", None) or ()
    return [
        str(given[i]) if i < len(given) and given[i] else f"operand {i}"
        for i in range(len(kernel.invars))
    ]


def _stays(sizes: tuple[int | None, ...], array: ArrayType, moves: bool) -> bool:
    """Whether the block is the whole array: Mosaic then keeps one copy, whatever the spec asks."""
    return not moves and tuple(1 if n is None else n for n in sizes) == array.shape


def _buffers(pipeline_mode: Any) -> int:
    return 2 if pipeline_mode is None else int(pipeline_mode.buffer_count)


def _moves(index_map: Any) -> bool:
    return any(getattr(var, "val", None) != 0 for var in index_map.outvars)


def _axes(index_map: Any, grid_rank: int) -> tuple[int, ...]:
    """The grid dimensions on which an index map's results depend."""
    sources = {id(var): {axis} for axis, var in enumerate(index_map.invars[:grid_rank])}
    for eqn in index_map.eqns:
        seen = set().union(*(sources.get(id(var), set()) for var in eqn.invars))
        sources.update((id(var), seen) for var in eqn.outvars)
    return tuple(sorted(set().union(*(sources.get(id(var), set()) for var in index_map.outvars))))


def array_type(aval: Any) -> ArrayType:
    """An abstract value's dtype and shape."""
    return ArrayType(_dtype_name(aval), tuple(int(n) for n in aval.shape))


def _dtype_name(aval: Any) -> str:
    dtype = getattr(aval, "dtype", None)
    return str(getattr(dtype, "name", dtype))
