"""The table of all encoders, by class or base class, and by name.

Writing and reading share the table. It is built ahead of time, with everything that each trace
needs.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping

from pallascope.kernels.serialization import (
    array_encoders,
    jaxpr_encoders,
    pallas_encoders,
    python_encoders,
)
from pallascope.kernels.serialization.encoding import Form


@functools.cache
def by_class() -> Mapping[type, Form]:
    """The form of each class that is carried."""
    return {form.kind: form for form in reversed(_all())}


def of(kind: type) -> Form | None:
    """The form of a class's objects; None if they are not carried."""
    table = by_class()
    if (form := table.get(kind)) is not None:
        return form
    return next((table[base] for base in kind.__mro__ if base in table and _open(base)), None)


def _open(kind: type) -> bool:
    """Whether the form of a class also covers its subclasses."""
    known = ("dtype", "generic", "Primitive", "HiPrim", "VJPHiPrimitive", "AbstractDevice")
    return kind.__name__ in known


@functools.cache
def by_name() -> Mapping[str, Form]:
    """The form of each name that the bytes may contain."""
    return {form.name: form for form in _all()}


def forget() -> None:
    """Forget the table: more classes are known now."""
    for kept in (by_class, by_name, _all):
        kept.cache_clear()


@functools.cache
def _all() -> tuple[Form, ...]:
    encoders = (
        python_encoders.container_forms,
        jaxpr_encoders.equation_forms,
        array_encoders.array_forms,
        array_encoders.type_forms,
        pallas_encoders.kernel_forms,
        pallas_encoders.class_forms,
        pallas_encoders.mosaic_gpu_forms,
    )
    rest = tuple(itertools.chain.from_iterable(forms() for forms in encoders))
    return (*rest, *python_encoders.tree_forms(rest))


def make_ready() -> None:
    """Build the tables of classes and primitives: 12 to 25 ms that each process would take later.

    This also decides what counts as JAX's own before any judged file is imported.
    """
    by_class()
    python_encoders.of_jax()


@functools.cache
def make_ready_for_gpus() -> None:
    """The same for launches on a GPU, once in a process: half a second that no other one spends.

    Call it before a judged file is imported. Raises ImportError if absl-py is missing.
    """
    pallas_encoders.make_known()
    forget()
    python_encoders.forget()
    make_ready()
