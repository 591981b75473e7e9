"""What a kernel allocates in shared memory, read from its trace."""

from __future__ import annotations

import itertools
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
    name: str = ""  # the kernel's parameter; "" where it has none

    def __str__(self) -> str:
        array = f"{self.dtype}[{','.join(map(str, self.shape))}]"
        return f"{self.name}  {array}" if self.name else array


def buffers_of(function: Callable[..., Any], args: Sequence[Any]) -> tuple[Buffer, ...]:
    """All that the kernels of `function(*args)` allocate, the largest first.

    Raises what jax raises while it traces.
    """
    import jax

    jaxpr = jax.make_jaxpr(lambda *arrays: function(*arrays))(*args).jaxpr
    found = [_buffer(text, name) for text, name in _allocated(jaxpr)]
    return tuple(sorted((b for b in found if b), key=lambda b: -b.size))


def _allocated(jaxpr: Any) -> Iterator[tuple[str, str]]:
    """The Refs that each run_scoped in a jaxpr or inside of it brings with it, and their names."""
    for equation in jaxpr.eqns:
        inner = [each for value in equation.params.values() for each in _jaxprs(value)]
        if equation.primitive.name == "run_scoped":
            for body in inner:
                names = getattr(body.debug_info, "arg_names", None) or ()
                for variable, name in itertools.zip_longest(body.invars, names):
                    if variable is not None:
                        yield str(variable.aval), name if str(name).isidentifier() else ""
        for body in inner:
            yield from _allocated(body)


def _jaxprs(value: Any) -> Iterator[Any]:
    for each in value if isinstance(value, (tuple, list)) else (value,):
        inner = getattr(each, "jaxpr", each)
        if hasattr(inner, "eqns"):
            yield inner


def _buffer(text: str, name: str) -> Buffer | None:
    if not (found := _REF.fullmatch(text)):
        return None
    shape = tuple(int(size) for size in found[2].split(",") if size)
    return Buffer(found[1], shape, math.prod(shape) * _bytes(found[1]), name)


def _bytes(dtype: str) -> int:
    """Of an element; what is not known as a dtype is a barrier of some kind."""
    import jax.numpy as jnp

    try:
        return jnp.dtype(dtype).itemsize
    except TypeError:
        return _BARRIER
