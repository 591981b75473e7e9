"""What a kernel allocates in shared memory, read from its trace."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

#: How a trace shows a Ref: "Ref<smem>{float32[64,128]}", "Ref<smem>{barrier[2]}".
_REF = re.compile(r"Ref<smem>\{(\w+)\[([\d,]*)\]\}")
_BARRIER = 8


@dataclass(frozen=True, slots=True)
class Buffer:
    """One allocation, as it lies there: tiled, and with one copy for each slot of a pipeline."""

    dtype: str
    shape: tuple[int, ...]
    size: int  # bytes

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


def buffers_of(function: Callable[..., Any], args: Sequence[Any]) -> tuple[Buffer, ...]:
    """All that the kernels of `function(*args)` allocate, the largest first.

    Raises what jax raises while it traces.
    """
    import jax

    jaxpr = jax.make_jaxpr(lambda *arrays: function(*arrays))(*args).jaxpr
    found = [_buffer(text) for text in _allocated(jaxpr)]
    return tuple(sorted((b for b in found if b), key=lambda b: -b.size))


def _allocated(jaxpr: Any) -> Iterator[str]:
    """The Refs that each run_scoped in a jaxpr, or inside of it, brings with it."""
    for equation in jaxpr.eqns:
        inner = [each for value in equation.params.values() for each in _jaxprs(value)]
        if equation.primitive.name == "run_scoped":
            yield from (str(variable.aval) for body in inner for variable in body.invars)
        for body in inner:
            yield from _allocated(body)


def _jaxprs(value: Any) -> Iterator[Any]:
    for each in value if isinstance(value, (tuple, list)) else (value,):
        inner = getattr(each, "jaxpr", each)
        if hasattr(inner, "eqns"):
            yield inner


def _buffer(text: str) -> Buffer | None:
    if not (found := _REF.fullmatch(text)):
        return None
    shape = tuple(int(size) for size in found[2].split(",") if size)
    return Buffer(found[1], shape, math.prod(shape) * _bytes(found[1]))


def _bytes(dtype: str) -> int:
    """Of an element; what is not known as a dtype is a barrier of some kind."""
    import jax.numpy as jnp

    try:
        return jnp.dtype(dtype).itemsize
    except TypeError:
        return _BARRIER
