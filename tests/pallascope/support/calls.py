"""Small arrays, kernels and traces, made by hand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from pallascope.model import (
    Array,
    ArrayType,
    FirstAccess,
    KernelCall,
    Lint,
    Operand,
    Operation,
    Role,
    Trace,
)
from pallascope.tools.arrays import dtype_of, from_numpy


def array(values: Any, dtype: str = "float32") -> Array:
    return from_numpy(np.asarray(values).astype(dtype_of(dtype)))


def operand(
    name: str,
    shape: tuple[int, ...],
    block: tuple[int | None, ...] | None = None,
    role: Role = Role.INPUT,
    first: FirstAccess = FirstAccess.NOTHING,
    dtype: str = "float32",
    space: str = "default",
    moves: bool = False,
    axes: tuple[int, ...] = (),
) -> Operand:
    return Operand(
        name,
        role,
        array=ArrayType(dtype, shape),
        block=shape if block is None else block,
        space=space,
        moves=moves,
        axes=axes,
        first=first,
    )


def output(
    block: tuple[int | None, ...] = (8, 128),
    first: FirstAccess = FirstAccess.WRITE,
    axes: tuple[int, ...] = (0,),
) -> Operand:
    return operand("o_ref", (32, 128), block, Role.OUTPUT, first, axes=axes)


def call(
    *operands: Operand,
    grid: tuple[int, ...] = (4,),
    parallel: tuple[int, ...] = (),
    callbacks: tuple[str, ...] = (),
    lints: tuple[Lint, ...] = (),
) -> KernelCall:
    return KernelCall("double", grid, operands, parallel, callbacks, lints=lints)


def doubling(block: tuple[int | None, ...] = (8, 128)) -> KernelCall:
    return call(operand("x_ref", (32, 128), block, first=FirstAccess.READ), output(block))


def trace(
    *calls: KernelCall,
    outside: Iterable[str | Operation] = (),
    results: tuple[ArrayType, ...] = (ArrayType("float32", (32, 128)),),
    from_kernel: tuple[bool, ...] | None = None,
    **others: Any,
) -> Trace:
    flags = (bool(calls),) * len(results) if from_kernel is None else from_kernel
    around = tuple(Operation(one) if isinstance(one, str) else one for one in outside)
    outputs = range(len(calls[-1].role(Role.OUTPUT)) if calls else 0)
    last = len(calls) - 1
    kernel_outputs = tuple((last, at) if at in outputs else None for at in range(len(results)))
    return Trace(calls, around, results, flags, **{"kernel_outputs": kernel_outputs, **others})
