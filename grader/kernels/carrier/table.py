"""Which classes are carried: the table that writing and reading have in common."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping

from grader.kernels.carrier import (
    arrays,
    classes,
    containers,
    equations,
    kernels,
    mosaic_gpu,
    trees,
    types,
)
from grader.kernels.carrier.forms import Form


@functools.cache
def by_class() -> Mapping[type, Form]:
    """The form of each class that is carried."""
    return {form.kind: form for form in reversed(_all())}


def of(kind: type) -> Form | None:
    """The form of the objects of a class; None where they are not carried."""
    table = by_class()
    if (form := table.get(kind)) is not None:
        return form
    return next((table[base] for base in kind.__mro__ if base in table and _open(base)), None)


def _open(kind: type) -> bool:
    """Whether the form of a class is that of its subclasses too."""
    known = ("dtype", "generic", "Primitive", "HiPrim", "VJPHiPrimitive", "AbstractDevice")
    return kind.__name__ in known


@functools.cache
def by_name() -> Mapping[str, Form]:
    """The form of each name that the bytes may hold."""
    return {form.name: form for form in _all()}


def forget() -> None:
    """Forget the table: more classes are known now."""
    for kept in (by_class, by_name, _all):
        kept.cache_clear()


@functools.cache
def _all() -> tuple[Form, ...]:
    modules = (containers, equations, arrays, types, kernels, classes, mosaic_gpu)
    rest = tuple(itertools.chain.from_iterable(module.forms() for module in modules))
    return (*rest, *trees.forms(rest))
