"""The encoder of a class; limits of a trace: sizes of constants, dimensions of grids, stack frames.

Limits: a solution's trace takes up to 100 KB, 10,000 nodes and 200 levels.

NotSerializable is an error in the trace, SerializationError an error in the bytes.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from pallascope.kernels.jax_internals import short

MOST_BYTES = 64 << 20
MOST_ARRAY_BYTES = 16 << 20  # of one constant
MOST_LEVELS = 2_000  # objects in objects; each jaxpr in another takes about six
#: Nodes, each counted as often as an object holds it: bounds the cost of hashing or printing all.
MOST_NODES_UNFOLDED = 50_000_000
MOST_RANK = 64  # NumPy's own limit
MOST_GRID_DIMENSIONS = 64
MOST_FRAMES = 10  # of a traceback; MLIR's locations keep as many


#: Whether the trace that is being dumped will only be run. Then objects that no run looks at are
#: left out: flags of the compiler, and the classes of the caller's trees.
only_to_run: ContextVar[bool] = ContextVar("only_to_run", default=False)


class NotSerializable(Exception):
    """Something in a trace can't be carried to another process.

    Its message names the operation or the object in plain words. `place` is the judged file's line
    from which it comes; None if it is unknown.
    """

    def __init__(self, message: str, place: int | None = None) -> None:
        super().__init__(message)
        self.place = place


class SerializationError(ValueError):
    """The bytes are not a carried trace: cut, changed, made by hand, or of another jax."""


@dataclass(frozen=True, slots=True)
class Form:
    """The encoding of the objects of one class.

    `parts` takes an object apart into objects that are carried themselves, and `build` makes an
    equal object from such parts. `build` gets any contents of the bytes, so it checks everything
    that could crash JAX.
    """

    name: str
    kind: type
    parts: Callable[[Any], Iterable[Any]]
    build: Callable[..., Any]


def constructed(
    kind: type, names: Sequence[str], name: str = "", sound: Callable[[Any], None] | None = None
) -> Form:
    """A class whose constructor takes its parts by keyword; `sound` raises for a broken object."""

    def build(*parts: Any) -> Any:
        made = kind(**dict(zip(names, parts, strict=True)))
        if sound:
            sound(made)
        return made

    return Form(name or named(kind), kind, _attributes(names), build)


def member(kind: type[enum.Enum]) -> Form:
    """An enum: its members' names."""
    return Form(named(kind), kind, lambda one: (one.name,), kind.__getitem__)


def row(kind: type) -> Form:
    """A NamedTuple."""
    return Form(named(kind), kind, tuple, kind)


def filled(kind: type, names: Sequence[str] | None = None) -> Form:
    """A class whose objects consist of their attributes; no constructor runs.

    Without `names`, they are the fields of a dataclass.
    """
    if names is None:
        names = [field.name for field in dataclasses.fields(kind)]

    def build(*parts: Any) -> Any:
        made = object.__new__(kind)
        for name, part in zip(names, parts, strict=True):
            object.__setattr__(made, name, part)
        return made

    return Form(named(kind), kind, _attributes(names), build)


def interned(kind: Any, names: Iterable[str], sound: Callable[..., None]) -> Form:
    """A class of which JAX keeps one object for each set of attributes.

    `sound` raises for invalid attributes, which no constructor checks.
    """
    names = [name for name in names if name in kind.__slots__]

    def build(*parts: Any) -> Any:
        attributes = dict(zip(names, parts, strict=True))
        sound(*parts)
        if (metadata := attributes.get("xla_metadata")) is not None:
            attributes["xla_metadata"] = tuple(sorted(metadata.items()))
        return kind._create(*attributes.values())

    return Form(named(kind), kind, _attributes(names), build)


def single(name: str, value: Any) -> Form:
    """A single object, identified by its place in JAX."""
    return Form(name, type(value), lambda _: (), lambda: value)


def named(kind: type) -> str:
    """The name of a class in the bytes: module and class, without the part that all share."""
    return f"{short(kind.__module__)}.{kind.__qualname__}"


def _attributes(names: Sequence[str]) -> Callable[[Any], list[Any]]:
    def parts(one: Any) -> list[Any]:
        return [getattr(one, name) for name in names]

    return parts
