"""The forms of Python's containers, and of objects of which JAX has one each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from grader.kernels.carrier.forms import Form, named, single
from grader.kernels.jax_internals import FROZEN_DICTS, SINGLES, found, short


def forms() -> Iterator[Form]:
    """The forms of containers, and of single objects by their place in JAX."""
    yield Form("tuple", tuple, tuple, lambda *parts: parts)
    yield Form("list", list, list, lambda *parts: list(parts))
    yield Form("set", set, _in_order, lambda *parts: set(parts))
    yield Form("frozenset", frozenset, _in_order, lambda *parts: frozenset(parts))
    yield Form("dict", dict, _pairs, _dict)
    yield Form("slice", slice, lambda one: (one.start, one.stop, one.step), slice)
    yield Form("ellipsis", type(...), lambda _: (), lambda: ...)
    for kind in found(FROZEN_DICTS):
        yield Form(named(kind), kind, _pairs, lambda *parts, kind=kind: kind(_dict(*parts)))
    for module, names in SINGLES.items():
        for name in names.split():
            yield from (single(f"{short(module)}.{name}", one) for one in found({module: name}))


def _in_order(members: Iterable[Any]) -> list[Any]:
    """Members as they are met: sets of effects have no order that could be kept."""
    return list(members)


def _pairs(mapping: Any) -> list[Any]:
    return [part for pair in mapping.items() for part in pair]


def _dict(*parts: Any) -> dict[Any, Any]:
    return dict(zip(parts[::2], parts[1::2], strict=True))
