"""A kernel's equation as data: operands, blocks, buffers, grid, cores, for TPUs and GPUs.

Kernels for GPUs have whole arrays as operands, and the threads of a block in their grid.
"""

from __future__ import annotations

import ast
import dataclasses
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from jax.core import AbstractValue
from jax.experimental import pallas as pl
from jax.extend import core

from pallascope.kernels.jax_internals import MOSAIC_GPU, UnsupportedJax, dce_jaxpr
from pallascope.kernels.jaxprs import is_scalar, memory_space, primitives
from pallascope.kernels.lints import (
    OTHER_CHIPS,
    lints_of,
    never_awaited,
    sub_word_integers,
    uses_remote_dma,
)
from pallascope.kernels.manual_dma import copied_buffers
from pallascope.kernels.pallas_params import (
    BlockMapping,
    GridMapping,
    block_size,
    body,
    grid_mapping,
    is_pallas_call,
    mesh,
    on_tensor_cores,
    semantics,
    vmem_limit,
)
from pallascope.kernels.refs import first_accesses, names_of
from pallascope.kernels.sharding import axes_over
from pallascope.kernels.source_lines import foreign_author, line_in
from pallascope.model import (
    ArrayType,
    FirstAccess,
    KernelCall,
    Operand,
    Operation,
    Role,
)


def is_for_gpus(kernel: core.JaxprEqn) -> bool:
    """Whether a kernel is a `plgpu.kernel`: its mesh is one of blocks and of threads."""
    if is_pallas_call(kernel) or not kernel.params.get("meshes"):
        return False
    return type(mesh(kernel)).__module__.startswith(MOSAIC_GPU)


def gpu_call(kernel: core.JaxprEqn, name: str, callbacks: tuple[str, ...]) -> KernelCall:
    """The equation of a `plgpu.kernel` as data. Its grid ends with the threads of a block.

    The kernel itself cuts its blocks, so each operand is one whole array in global memory.
    """
    return KernelCall(
        name=name,
        grid=tuple(int(size) for size in mesh(kernel).shape.values()),
        operands=tuple(_gpu_operands(kernel)),
        callbacks=callbacks,
    )


def called_as_written(call: KernelCall, text: str, usual: str) -> KernelCall:
    """The call, with the operands named as in the kernel's function in this file.

    A trace doesn't keep the names. The function has the call's name, or otherwise the `usual` one;
    if the file has no such function, or one with fewer parameters, the names stay.
    """
    found = _parameters(text)
    names = found.get(call.name) or found.get(usual) or []
    if len(names) < len(call.operands):
        return call
    pairs = zip(call.operands, names, strict=False)
    operands = tuple(
        dataclasses.replace(operand, name=name) if _is_nameless(operand) else operand
        for operand, name in pairs
    )
    return dataclasses.replace(call, operands=operands)


def _parameters(text: str) -> dict[str, list[str]]:
    """The positional parameters of each function in a file, by its name."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return {}
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return {f.name: [each.arg for each in (*f.args.posonlyargs, *f.args.args)] for f in functions}


def _is_nameless(operand: Operand) -> bool:
    return not operand.name.isidentifier()


def _gpu_operands(kernel: core.JaxprEqn) -> Iterator[Operand]:
    inputs = len(kernel.invars)
    names = getattr(body(kernel).debug_info, "arg_names", None) or ()
    for position, var in enumerate(body(kernel).invars):
        aval = getattr(var.aval, "inner_aval", var.aval)
        dtype = getattr(aval, "dtype", None)
        shape = tuple(int(size) for size in getattr(aval, "shape", ()))
        given = str(names[position]) if position < len(names) else ""
        name = given if given.isidentifier() else f"operand {position}"
        role = Role.INPUT if position < inputs else Role.OUTPUT
        array = ArrayType(str(getattr(dtype, "name", dtype)), shape)
        # Accesses aren't looked for here, so that no operand counts as unused.
        first = FirstAccess.READ if role is Role.INPUT else FirstAccess.WRITE
        yield Operand(name, role, array, block=shape, space="any", first=first, buffers=1)


CALLBACKS = ("pure_callback", "io_callback")


SPARSE_CORES = "it runs on SparseCores, whose time isn't predicted"


def kernel_call(equation: core.JaxprEqn, file: str = "") -> KernelCall:
    """The equation of one kernel as data. Raises UnsupportedJax if its parameters have moved.

    `file` is the judged one; without it, the kernel's author and line aren't looked up.
    """
    try:
        call = _kernel_call(equation)
        if not file:
            return call
        kernel = body(equation)
        return dataclasses.replace(
            call,
            foreign=foreign_author(kernel, file),
            line=line_in(equation, file),
            sub_word_ints=sub_word_integers(kernel, file),
            operations=sum(1 for _ in primitives(kernel)),
        )
    except (AttributeError, KeyError) as error:
        name = equation.primitive.name
        raise UnsupportedJax(f"a parameter of {name} ({error})") from error


def _kernel_call(equation: core.JaxprEqn) -> KernelCall:
    if is_pallas_call(equation):
        return _pallas_call(equation)
    if is_for_gpus(equation):
        kernel = body(equation)
        return gpu_call(equation, _name(equation, kernel), _callbacks(kernel))
    return _mpmd_map(equation)


def _pallas_call(equation: core.JaxprEqn) -> KernelCall:
    mapping, kernel = grid_mapping(equation), body(equation)
    return KernelCall(
        name=_name(equation, kernel),
        grid=tuple(n if isinstance(n, int) else None for n in mapping.grid),
        operands=_awaited(kernel, _aliased(equation, _operands(mapping, kernel))),
        parallel=_parallel(equation),
        callbacks=_callbacks(kernel),
        lints=lints_of(kernel),
        unknown=_unknown(equation, kernel, getattr(mapping, "grid_names", None) or ()),
        vmem_limit=vmem_limit(equation),
        scoped=_scoped(kernel),
    )


def _mpmd_map(equation: core.JaxprEqn) -> KernelCall:
    """A kernel over a mesh. The mesh's axes are its grid: each core takes one step."""
    kernel, cores = body(equation), tuple(mesh(equation).shape.values())
    inputs, outputs = len(equation.invars), len(equation.outvars)
    return KernelCall(
        name=_name(equation, kernel),
        grid=cores,
        operands=_awaited(kernel, _by_hand(kernel, inputs, outputs)),
        parallel=tuple(axis for axis, size in enumerate(cores) if size > 1),
        callbacks=_callbacks(kernel),
        lints=lints_of(kernel),
        cores=math.prod(cores),
        unknown=_unknown(equation, kernel, mesh(equation).shape),
        vmem_limit=vmem_limit(equation),
        scoped=_scoped(kernel),
    )


def _unknown(equation: core.JaxprEqn, kernel: core.Jaxpr, axes: Collection[object]) -> str:
    """The reason if a kernel's cost on one TensorCore is unknown, otherwise ""."""
    if not is_pallas_call(equation) and not on_tensor_cores(equation):
        return SPARSE_CORES
    return OTHER_CHIPS if uses_remote_dma(kernel, axes) else ""


def _by_hand(kernel: core.Jaxpr, inputs: int, outputs: int) -> Iterator[Operand]:
    """The operands of a kernel over a mesh: whole arrays, without blocks, which it copies itself.

    A Ref without a memory space stays in the array's place, in HBM.
    """
    roles = [Role.INPUT] * inputs + [Role.OUTPUT] * outputs
    roles += [Role.SCRATCH] * (len(kernel.invars) - len(roles))
    touches = first_accesses(kernel)
    for name, role, var, touch in zip(names_of(kernel), roles, kernel.invars, touches, strict=True):
        operand = _whole(name, role, var.aval, touch)
        space = "any" if operand.space == "default" else operand.space
        yield dataclasses.replace(operand, space="smem" if is_scalar(var) else space)


def _awaited(kernel: core.Jaxpr, operands: Iterable[Operand]) -> tuple[Operand, ...]:
    """The operands, marked if the body starts or awaits copies of them."""
    copied, _ = copied_buffers(kernel)
    return tuple(
        dataclasses.replace(operand, unawaited=unawaited, copied=position in copied)
        for position, (operand, unawaited) in enumerate(
            zip(operands, never_awaited(kernel), strict=True)
        )
    )


def _scoped(kernel: core.Jaxpr) -> tuple[ArrayType, ...]:
    _, buffers = copied_buffers(kernel)
    return tuple(array_type(var.aval) for var in buffers)


#: The most characters of a kernel's name in messages.
MOST_NAME = 100


def _name(equation: core.JaxprEqn, kernel: core.Jaxpr) -> str:
    """The launch's name for it, otherwise the function's; "_" means a function without a name.

    In one line, and cut: a launch may choose any text.
    """
    own = " ".join(str(equation.params.get("name") or "").split())
    names = (own[:MOST_NAME], _function(kernel))
    return next((name for name in names if name.strip("_")), "kernel")


def _callbacks(kernel: core.Jaxpr) -> tuple[str, ...]:
    return tuple(name for name in primitives(kernel) if name in CALLBACKS)


def _function(kernel: core.Jaxpr) -> str:
    """The name of the traced function: the source info reads "NAME at FILE:LINE"."""
    name = str(getattr(kernel.debug_info, "func_src_info", "") or "").partition(" ")[0]
    return name if name.isidentifier() else "kernel"


def _parallel(pallas_call: core.JaxprEqn) -> tuple[int, ...]:
    names = enumerate(semantics(pallas_call))
    return tuple(axis for axis, name in names if name.endswith("parallel"))


def _operands(mapping: GridMapping, kernel: core.Jaxpr) -> Iterator[Operand]:
    names = names_of(kernel, mapping)
    touches = first_accesses(kernel)
    prefetch = mapping.num_index_operands
    for position, var in enumerate(kernel.invars):
        name, touch, block = names[position], touches[position], position - prefetch
        if position < prefetch:
            yield _whole(name, Role.PREFETCH, var.aval, touch)
        elif block < mapping.num_inputs + mapping.num_outputs:
            role = Role.INPUT if block < mapping.num_inputs else Role.OUTPUT
            yield _blocked(name, role, mapping.block_mappings[block], len(mapping.grid), touch)
        else:
            yield _whole(name, Role.SCRATCH, var.aval, touch)


def _aliased(pallas_call: core.JaxprEqn, operands: Iterable[Operand]) -> Iterator[Operand]:
    """The operands, marked if an output begins as an input's array."""
    pairs: Iterable[tuple[int, int]] = pallas_call.params.get("input_output_aliases") or ()
    inputs, results = {given for given, _ in pairs}, {result for _, result in pairs}
    before = 0
    for position, operand in enumerate(operands):
        output = operand.role is Role.OUTPUT
        aliased = before in results if output else position in inputs
        yield dataclasses.replace(operand, aliased=aliased)
        before += output


def _whole(name: str, role: Role, ref: AbstractValue, touch: FirstAccess) -> Operand:
    """An operand without a BlockSpec: scalar prefetch, scratch, and all operands of a mesh."""
    array = array_type(getattr(ref, "inner_aval", ref))
    space = memory_space(ref)
    return Operand(name, role, array, block=array.shape, space=space, first=touch, buffers=1)


def _blocked(
    name: str, role: Role, spec: BlockMapping, grid_rank: int, touch: FirstAccess
) -> Operand:
    """An operand that has a BlockSpec."""
    array = array_type(spec.array_aval)
    index_map = spec.index_map_jaxpr.jaxpr
    sizes = tuple(block_size(dim) for dim in spec.block_shape)
    moves = _moves(index_map)
    return Operand(
        name=name,
        role=role,
        array=array,
        block=sizes,
        space=memory_space(spec.transformed_block_aval),
        moves=moves,
        axes=_axes(index_map, grid_rank),
        first=touch,
        buffers=1 if _stays(sizes, array, moves) else _buffers(spec.pipeline_mode),
        element=any(isinstance(dim, pl.Element) for dim in spec.block_shape),
        kinds=_kinds(spec.block_shape),
    )


def _kinds(block: Sequence[pl.BlockDim | int | None]) -> tuple[str, ...]:
    """Pallas' name for each dimension's kind; () if all are cut by a size."""
    plain = {"int": "Blocked", "NoneType": "Squeezed"}
    names = tuple(plain.get(type(dim).__name__, type(dim).__name__) for dim in block)
    return () if set(names) <= {"Blocked", "Squeezed"} else names


def _stays(sizes: tuple[int | None, ...], array: ArrayType, moves: bool) -> bool:
    """Whether the block is the whole array: Mosaic then keeps one copy, whatever the spec says."""
    return not moves and tuple(1 if n is None else n for n in sizes) == array.shape


def _buffers(pipeline_mode: pl.Buffered | None) -> int:
    return 2 if pipeline_mode is None else int(pipeline_mode.buffer_count)


def _moves(index_map: core.Jaxpr) -> bool:
    """Whether an index map returns anything other than literal zeros."""
    return any(not isinstance(var, core.Literal) or var.val != 0 for var in index_map.outvars)


def _axes(index_map: core.Jaxpr, grid_rank: int) -> tuple[int, ...]:
    """The grid dimensions on which an index map's results depend."""
    _, needed = dce_jaxpr(index_map, [True] * len(index_map.outvars))
    return tuple(axis for axis, is_needed in enumerate(needed[:grid_rank]) if is_needed)


def array_type(aval: AbstractValue) -> ArrayType:
    """An abstract value's dtype and shape; () if it has no shape, such as a semaphore."""
    dtype = getattr(aval, "dtype", None)
    shape = tuple(int(n) for n in getattr(aval, "shape", ()))
    return ArrayType(str(getattr(dtype, "name", dtype)), shape)


def operation(eqn: core.JaxprEqn, line: int = 0, turns: int = 1) -> Operation:
    """An equation as data; `line` is the line of the judged file from which it was traced.

    `turns` is the trip count of the surrounding loops.
    """
    operands = (array_type(var.aval) for var in eqn.invars if hasattr(var.aval, "shape"))
    results = (array_type(var.aval) for var in eqn.outvars if hasattr(var.aval, "shape"))
    return Operation(
        eqn.primitive.name,
        tuple(operands),
        results=tuple(results),
        line=line,
        terms=_terms(eqn),
        turns=turns,
        axes=axes_over(eqn),
    )


def _terms(eqn: core.JaxprEqn) -> int:
    """The number of products that a matrix product adds up for each element; otherwise 1."""
    if eqn.primitive.name != "dot_general":
        return 1
    (contracted, _), _ = eqn.params["dimension_numbers"]
    left: Any = eqn.invars[0].aval
    return max(math.prod(left.shape[axis] for axis in contracted), 1)
