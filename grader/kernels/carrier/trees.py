"""The forms of tree definitions, and of JAX's operations that are objects with attributes."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from grader.kernels.carrier.errors import NotCarried
from grader.kernels.carrier.forms import Form, named
from grader.kernels.jax_internals import (
    ERRORS,
    FLAT_TREES,
    FLAT_TUPLES,
    HIJAX_OPERATIONS,
    found,
    is_source,
    pytree,
    tree_util,
)

_REGISTRIES = ("default_registry", "tracing_registry", "dispatch_registry", "none_leaf_registry")
_ERRORS = tuple(found(ERRORS))
_BUILTIN = {"tuple": tuple, "list": list, "dict": dict, "None": type(None)}


def forms(others: Iterable[Form]) -> Iterator[Form]:
    """The forms of tree definitions and of hijax operations.

    The nodes of trees are Python's containers, or objects of classes that have one of the `others`.
    """
    trees = _Trees({**_BUILTIN, **{form.name: form.kind for form in others}})
    yield Form("tree", pytree.PyTreeDef, trees.parts, trees.built)
    for base in found(HIJAX_OPERATIONS):
        yield Form(named(base), base, _operation_parts, _operation)
        break
    yield from _flat_trees()


def _flat_trees() -> Iterator[Form]:
    """How jax 0.12 keeps nested arguments."""
    for module, attributes in FLAT_TREES.items():
        for name, names in attributes.items():
            yield from (_by_position(kind, names) for kind in found({module: name}))
    for kind in found(FLAT_TUPLES):
        yield Form(named(kind), kind, lambda one: one.elts, kind)


def _by_position(kind: Any, names: tuple[str, ...]) -> Form:
    return Form(named(kind), kind, lambda one: [getattr(one, name) for name in names], kind)


class _Trees:
    """Takes trees apart, and builds them, out of nodes of these classes."""

    def __init__(self, nodes: Mapping[str, type]) -> None:
        self._nodes = nodes
        self._names = {kind: name for name, kind in nodes.items()}

    def parts(self, tree: Any) -> tuple[Any, ...]:
        registry, data = _registry(tree), tree.node_data()
        if data is None:
            return registry, None, None
        kind, more = data
        if kind in _ERRORS:  # what a check returns if it fails
            raise NotCarried("a pl.debug_check, or another check")
        if kind not in self._names:
            raise NotCarried(f"a tree with nodes of the class {kind.__qualname__}")
        return registry, self._names[kind], more, *tree.children()

    def built(self, registry: str, name: str | None, more: Any, *children: Any) -> Any:
        if registry not in _REGISTRIES:
            raise ValueError(f"trees have no registry {registry!r}")
        if not all(isinstance(child, pytree.PyTreeDef) for child in children):
            raise TypeError("a tree is made of trees")
        if children and name in (None, "None"):
            raise ValueError("a leaf has no children")
        if name in ("tuple", "list", "None") and more is not None:
            raise ValueError("a tuple is no more than its members")
        if name == "dict" and not (isinstance(more, list) and len(more) == len(children)):
            raise ValueError("a dict has as many keys as values")
        data = None if name is None else (self._nodes[name], more)
        made = pytree.PyTreeDef.from_node_data_and_children
        return made(getattr(tree_util, registry), data, list(children))


def _registry(tree: Any) -> str:
    for name in _REGISTRIES:
        try:
            pytree.treedef_tuple(getattr(tree_util, name), [tree])
        except (ValueError, RuntimeError):
            continue
        return name
    raise NotCarried("a tree of an unknown registry")


@functools.cache
def _operations() -> Mapping[tuple[str, str], type]:
    """JAX's own hijax operations, by module and class."""
    operations = {}
    open_ends = list(found(HIJAX_OPERATIONS))
    while open_ends:
        for kind in open_ends.pop().__subclasses__():
            open_ends.append(kind)
            if is_source(kind.__module__) and "<" not in kind.__qualname__:
                operations[kind.__module__, kind.__qualname__] = kind
    return operations


def _operation_parts(operation: Any) -> tuple[Any, ...]:
    kind = type(operation)
    if _operations().get((kind.__module__, kind.__qualname__)) is not kind:
        raise NotCarried(f"the operation {kind.__qualname__}, which is not one of JAX's own")
    return kind.__module__, kind.__qualname__, dict(vars(operation))


def _operation(module: str, name: str, attributes: dict[str, Any]) -> Any:
    kind = _operations()[module, name]
    if any(callable(getattr(kind, key, None)) for key in attributes):
        raise ValueError(f"an operation {name} with a function of its own")
    made = object.__new__(kind)
    vars(made).update(attributes)
    return made
