"""What equations of a kernel name: numbers, buffers, parts of them, and semaphores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from jax.extend import core

from grader.kernels.copies import UNTOLD_SIZE, extent, ref_of
from grader.kernels.dry_events import Buffer, End, Semaphore
from grader.kernels.jaxprs import Atom, array_struct, memory_space
from grader.kernels.scalars import Number


class Untold(ValueError):
    """What a copy or a branch depends on is known only at run time; says so in words."""


def value(atom: Atom, known: Mapping[core.Var, Any]) -> Any:
    """A number, a Buffer, or None for all else."""
    if isinstance(atom, core.Var):
        return known.get(atom)
    value = atom.val
    if getattr(value, "shape", ()) != ():
        return None
    return value.item() if hasattr(value, "item") else value


def end_of(end: Any, known: Mapping[core.Var, Any]) -> End:
    """One end of a copy. Raises Untold."""
    ref = ref_of(end)
    buffer, sizes = value(ref, known), extent(end)
    if not isinstance(buffer, Buffer) or sizes is None:
        raise Untold(UNTOLD_SIZE)
    size = math.prod(sizes) * array_struct(ref).dtype.itemsize
    return End(buffer, sizes, memory_space(ref.aval), size, _at(end, known))


def _at(end: Any, known: Mapping[core.Var, Any]) -> str:
    """The indices of a part, in words: "[1, 0:8]". What is whole is left out at the end."""
    texts = []
    for transform in getattr(end, "transforms", ()):
        for index in getattr(transform, "indices", ()):
            if not hasattr(index, "stride"):
                texts.append(_in_words(number(index, known)))
                continue
            first = number(index.start, known)
            last = None if first is None else int(first) + index.size
            texts.append(f"{_in_words(first)}:{_in_words(last)}")
    sizes = list(getattr(array_struct(ref_of(end)), "shape", ()))
    while texts and len(texts) <= len(sizes) and texts[-1] == f"0:{sizes[len(texts) - 1]}":
        texts.pop()
    return f"[{', '.join(texts)}]" if texts else ""


def _in_words(number: Number) -> str:
    return "?" if number is None else str(int(number))


def semaphore(end: Any, known: Mapping[core.Var, Any]) -> Semaphore:
    """Which semaphore a copy is counted by."""
    return semaphore_at(ref_of(end), getattr(end, "transforms", ()), known)


def semaphore_at(ref: Any, transforms: Sequence[Any], known: Mapping[core.Var, Any]) -> Semaphore:
    """Which semaphore of a Ref to some these transforms choose."""
    buffer = value(ref, known)
    assert isinstance(buffer, Buffer), ref
    indices = (index for one in transforms for index in getattr(one, "indices", ()))
    return buffer, tuple(number(index, known) for index in indices)


def number(index: Any, known: Mapping[core.Var, Any]) -> Number:
    """A scalar of the kernel's; None where it is not known."""
    if isinstance(index, (core.Var, core.Literal)):
        return value(index, known)
    return int(index) if getattr(index, "shape", None) == () or isinstance(index, int) else None
