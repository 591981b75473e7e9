"""How the objects of a class are carried: as which parts, and how they are put together again."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from grader.kernels.jax_internals import short


@dataclass(frozen=True, slots=True)
class Form:
    """How the objects of one class are carried.

    `parts` takes one apart into objects that are carried themselves, `build` makes an equal one of
    such parts. `build` gets whatever the bytes hold: it checks what JAX would not survive.
    """

    name: str
    kind: type
    parts: Callable[[Any], Iterable[Any]]
    build: Callable[..., Any]


def constructed(
    kind: type, names: Sequence[str], name: str = "", sound: Callable[[Any], None] | None = None
) -> Form:
    """A class whose constructor takes its parts, by keyword; `sound` raises for a broken object."""

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
    """A class whose objects are no more than their attributes; no constructor runs.

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

    `sound` raises for attributes that are none; no constructor looks at them.
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
    """An object of which there is one, known by its place in JAX."""
    return Form(name, type(value), lambda _: (), lambda: value)


def named(kind: type) -> str:
    """The name of a class in the bytes: module and class, without what all of them share."""
    return f"{short(kind.__module__)}.{kind.__qualname__}"


def _attributes(names: Sequence[str]) -> Callable[[Any], list[Any]]:
    def parts(one: Any) -> list[Any]:
        return [getattr(one, name) for name in names]

    return parts
