"""A kernel for a GPU as data: what it is given and gives back, and its grid."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator

from jax.extend import core

from grader.kernels.jax_internals import MOSAIC_GPU
from grader.kernels.pallas_params import body, is_pallas_call, mesh
from grader.model import ArrayType, KernelCall, Operand, Role, Touch


def is_for_gpus(kernel: core.JaxprEqn) -> bool:
    """Whether a kernel is a `plgpu.kernel`: its mesh is one of blocks and of threads."""
    if is_pallas_call(kernel) or not kernel.params.get("meshes"):
        return False
    return type(mesh(kernel)).__module__.startswith(MOSAIC_GPU)


def gpu_call(kernel: core.JaxprEqn, name: str, callbacks: tuple[str, ...]) -> KernelCall:
    """The equation of a `plgpu.kernel` as data. Its grid ends with the threads of a block.

    Blocks are cut by the kernel itself, so each operand is one whole array in global memory.
    """
    return KernelCall(
        name=name,
        grid=tuple(int(size) for size in mesh(kernel).shape.values()),
        operands=tuple(_operands(kernel)),
        callbacks=callbacks,
    )


def called_as_written(call: KernelCall, text: str, usual: str) -> KernelCall:
    """The call, its operands by the names that the kernel's function in this file gives them.

    A trace doesn't keep them. The function has the call's name, or else the `usual` one; where the
    file has no such function, or one with fewer parameters, the names stay.
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
    """Of each function in a file, by its name, the positional parameters."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return {}
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return {f.name: [each.arg for each in (*f.args.posonlyargs, *f.args.args)] for f in functions}


def _is_nameless(operand: Operand) -> bool:
    return not operand.name.isidentifier()


def _operands(kernel: core.JaxprEqn) -> Iterator[Operand]:
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
        # Which of them it touches is not looked for here: none is to be called unused.
        first = Touch.READ if role is Role.INPUT else Touch.WRITE
        yield Operand(name, role, array, block=shape, space="any", first=first, buffers=1)
