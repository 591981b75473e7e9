"""Writes a trace as bytes; the table of all encoders, by class or base class, and by name.

Writing and reading share the table. It is built ahead of time, with everything that each trace
needs.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from typing import Any

import jax
from jax.extend import core

from pallascope.kernels.jax_internals import Traceback
from pallascope.kernels.jaxprs import first_use
from pallascope.kernels.serialization import (
    array_encoders,
    jaxpr_encoders,
    pallas_encoders,
    python_encoders,
)
from pallascope.kernels.serialization.encoding import (
    MOST_BYTES,
    Form,
    NotSerializable,
    only_to_run,
)
from pallascope.kernels.serialization.jaxpr_encoders import constants_of
from pallascope.kernels.serialization.python_encoders import behind, is_serialized_by_name
from pallascope.kernels.serialization.wire_format import (
    BYTES,
    LARGEST,
    TRACEBACK,
    Stack,
    WireLayout,
    packed,
    stack_of,
)

_PLAIN = (bool, int, float, str)


def dumped(closed: core.ClosedJaxpr, for_runs: bool = False) -> bytes:
    """A trace as bytes that `loaded` reads. Raises NotSerializable.

    `for_runs`: it will only be run, and needs nothing that only a compiler reads.
    """
    dump = _Dump()
    before = only_to_run.set(for_runs)
    try:
        dump.constants(closed)
        root = dump.node(closed)
    except RecursionError:
        raise NotSerializable("operations nested too deeply") from None
    finally:
        only_to_run.reset(before)
    data = packed(dump.layout(root))
    if len(data) > MOST_BYTES:
        raise NotSerializable(f"a trace of {len(data) >> 20} MiB, most of it constants")
    return data


class _Dump:
    """A trace while it becomes a table. An object that occurs again is the same node."""

    def __init__(self) -> None:
        self._nodes: list[Any] = []
        self._forms: dict[str, int] = {}
        self._objects: dict[int, int] = {}
        self._kept: list[Any] = []  # so that no other object gets the id of an earlier one
        self._values: dict[Any, int] = {}
        self._stacks: dict[Stack, int] = {}
        self._blobs: list[bytes] = []

    def layout(self, root: int) -> WireLayout:
        return WireLayout(
            jax=jax.__version__,
            forms=list(self._forms),
            stacks=list(self._stacks),
            nodes=self._nodes,
            blobs=self._blobs,
            root=root,
        )

    def constants(self, closed: core.ClosedJaxpr) -> None:
        """The constants of a whole trace; a refused one is reported at its first use."""
        for var, constant in constants_of(closed):
            try:
                self.node(constant)
            except NotSerializable as refused:
                user = first_use(closed.jaxpr, var)
                refused.place = None if user is None else _line(user)
                raise

    def node(self, one: Any) -> int:
        """The number of an object's node."""
        kind = type(one)
        if one is None or kind in _PLAIN:
            return self._plain(one, kind)
        known = self._objects.get(id(one))
        if known is None:
            self._kept.append(one)
            known = self._objects[id(one)] = self._new(one, kind)
        return known

    def _plain(self, one: Any, kind: type) -> int:
        key = (kind, repr(one) if kind is float else one)
        known = self._values.get(key)
        if known is None:
            if kind is int and abs(one) > LARGEST:
                raise NotSerializable("a number of more than 64 bits")
            known = self._values[key] = self._add(one)
        return known

    def _new(self, one: Any, kind: type) -> int:
        if kind is core.JaxprEqn:
            return self._equation(one)
        if kind is Traceback:
            stack = stack_of(one)
            return self._add([TRACEBACK, self._stacks.setdefault(stack, len(self._stacks))])
        if kind is bytes:
            self._blobs.append(one)
            return self._add([BYTES, len(self._blobs) - 1])
        form = _form(kind)
        return self._object(form, form.parts(one))

    def _object(self, form: Form, parts: Any) -> int:
        number = self._forms.setdefault(form.name, len(self._forms))
        return self._add([number, *map(self.node, parts)])

    def _equation(self, eqn: core.JaxprEqn) -> int:
        form = _form(core.JaxprEqn)
        name = eqn.primitive.name
        try:
            invars, outvars, primitive, params, *more = form.parts(eqn)
            numbers = [self.node(invars), self.node(outvars), self.node(primitive)]
            numbers.append(self._params(name, params))
            numbers += map(self.node, more)
        except NotSerializable as refused:
            if refused.place is None:
                refused.place = _line(eqn)
            raise
        return self._add([self._forms.setdefault(form.name, len(self._forms)), *numbers])

    def _params(self, primitive: str, params: dict[str, Any]) -> int:
        form = _form(dict)
        numbers = []
        for key, value in params.items():
            if is_serialized_by_name(primitive, key, value):
                value = behind(value)
            try:
                numbers += self.node(key), self.node(value)
            except _Unknown as unknown:
                what = f"{unknown} in the parameter {key} of {primitive}"
                raise NotSerializable(what) from None
        return self._add([self._forms.setdefault(form.name, len(self._forms)), *numbers])

    def _add(self, node: Any) -> int:
        self._nodes.append(node)
        return len(self._nodes) - 1


class _Unknown(NotSerializable):
    """An object of a class without a form; the parameter that holds it is added later."""


def _form(kind: type) -> Form:
    form = form_of(kind)
    if form is None:
        raise _Unknown(f"an object of the class {kind.__module__}.{kind.__qualname__}")
    return form


def _line(eqn: core.JaxprEqn) -> int | None:
    """The line outside of jax from which an equation was traced."""
    traceback = eqn.source_info.traceback
    stack = stack_of(traceback) if traceback is not None else ()
    return stack[0].line if stack else None


# ---- the table of encoders ----


@functools.cache
def by_class() -> Mapping[type, Form]:
    """The form of each class that is carried."""
    return {form.kind: form for form in reversed(_all())}


def form_of(kind: type) -> Form | None:
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
