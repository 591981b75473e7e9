"""Encoders of containers, tree definitions, functions; primitives and effects that are refused.

Containers are Python's. Single objects, primitives and hijax operations are identified by their
module and name in JAX. The format strings of debug prints are checked, because Python's `format`
can access attributes of objects.

Functions in a trace (derivatives' rules, memoised thunks, callbacks) become stand-ins. No use of a
trace calls a rule or a thunk. A callback is a finding before it could run; one that runs raises.
"""

from __future__ import annotations

import functools
import string
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax.experimental.pallas.tpu
import jax.experimental.shard_map  # noqa: F401
from jax.extend import core

from pallascope.kernels.jax_internals import (
    ERRORS,
    FLAT_TREES,
    FLAT_TUPLES,
    FROZEN_DICTS,
    HIJAX_OPERATIONS,
    SINGLES,
    DebugInfo,
    WrappedFun,
    found,
    imported,
    is_source,
    linear_util,
    pytree,
    short,
    tree_util,
)
from pallascope.kernels.serialization.encoding import (
    Form,
    NotSerializable,
    named,
    only_to_run,
    single,
)


def container_forms() -> Iterator[Form]:
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
    """Members in iteration order: the order of a set of effects couldn't be kept."""
    return list(members)


def _pairs(mapping: Any) -> list[Any]:
    return [part for pair in mapping.items() for part in pair]


def _dict(*parts: Any) -> dict[Any, Any]:
    return dict(zip(parts[::2], parts[1::2], strict=True))


_REGISTRIES = ("default_registry", "tracing_registry", "dispatch_registry", "none_leaf_registry")
_ERRORS = tuple(found(ERRORS))
_BUILTIN = {"tuple": tuple, "list": list, "dict": dict, "None": type(None)}


def tree_forms(others: Iterable[Form]) -> Iterator[Form]:
    """The forms of tree definitions and of hijax operations.

    The nodes of trees are Python's containers, or objects of classes that are in `others`.
    """
    trees = _Trees({**_BUILTIN, **{form.name: form.kind for form in others}})
    yield Form("tree", pytree.PyTreeDef, trees.parts, trees.built)
    for base in found(HIJAX_OPERATIONS):
        yield Form(named(base), base, _operation_parts, _operation)
        break
    yield from _flat_trees()


def _flat_trees() -> Iterator[Form]:
    """Nested arguments in jax 0.12."""
    for module, attributes in FLAT_TREES.items():
        for name, names in attributes.items():
            yield from (_by_position(kind, names) for kind in found({module: name}))
    for kind in found(FLAT_TUPLES):
        yield Form(named(kind), kind, lambda one: one.elts, kind)


def _by_position(kind: Any, names: tuple[str, ...]) -> Form:
    return Form(named(kind), kind, lambda one: [getattr(one, name) for name in names], kind)


class _Trees:
    """Takes trees apart, and builds them, with nodes of these classes."""

    def __init__(self, nodes: Mapping[str, type]) -> None:
        self._nodes = nodes
        self._names = {kind: name for name, kind in nodes.items()}

    def parts(self, tree: Any) -> tuple[Any, ...]:
        registry, data = _registry(tree), tree.node_data()
        if data is None:
            return registry, None, None
        kind, more = data
        if kind in _ERRORS:  # the result of a check that fails
            raise NotSerializable("a pl.debug_check, or another check")
        if kind not in self._names and only_to_run.get():
            return registry, self._names[tuple], None, *tree.children()
        if kind not in self._names:
            raise NotSerializable(f"a tree with nodes of the class {kind.__qualname__}")
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
    raise NotSerializable("a tree of an unknown registry")


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
        raise NotSerializable(f"the operation {kind.__qualname__}, which is not one of JAX's own")
    return kind.__module__, kind.__qualname__, dict(vars(operation))


def _operation(module: str, name: str, attributes: dict[str, Any]) -> Any:
    kind = _operations()[module, name]
    if any(callable(getattr(kind, key, None)) for key in attributes):
        raise ValueError(f"an operation {name} with a function of its own")
    made = object.__new__(kind)
    vars(made).update(attributes)
    return made


# Everything that a launch for a TPU may contain has to be imported before it is looked up.


Home = tuple[str, str]

#: JAX's operations that are not carried, by name, with the reason. With the first, a launch would
#: be two in one; the last calls any code of the process.
REFUSED = {
    "platform_index": "which depends on the platform: it is several launches in one",
    "ffi_call": "which calls code outside of JAX",
}


@functools.cache
def of_jax() -> Mapping[core.Primitive, Home]:
    """Every primitive in a module of JAX, and its place."""
    homes: dict[core.Primitive, Home] = {}
    for module, source in imported():
        for name, value in list(vars(source).items()):
            if isinstance(value, core.Primitive) and value.name not in REFUSED:
                homes.setdefault(value, (module, name))
    return homes


@functools.cache
def _by_home() -> Mapping[Home, core.Primitive]:
    return {home: primitive for primitive, home in of_jax().items()}


def forget() -> None:
    """Forget the tables: more of JAX's modules have been imported."""
    for kept in (of_jax, _by_home):
        kept.cache_clear()


def home_of(primitive: core.Primitive) -> Home | None:
    """The module and the name of a primitive in JAX; None if it isn't JAX's."""
    return of_jax().get(primitive)


def primitive_at(module: str, name: str) -> core.Primitive:
    """The primitive of this name in this module of JAX's. Raises KeyError."""
    return _by_home()[module, name]


_PRINT = "debug_print"


def peeks(primitive: str, params: dict[str, object]) -> bool:
    """Whether an equation prints more than its values: `{x.base}`, `{x[0]}`.

    Attributes of a value lead to the modules of the process that prints. Raises ValueError if the
    text isn't a format string.
    """
    return primitive == _PRINT and bool(params.get("has_placeholders")) and _peeks(params["fmt"])


def _peeks(text: object) -> bool:
    if type(text) is not str:
        raise ValueError("a debug print has a text")
    fields = [
        (name, spec) for _, name, spec, _ in string.Formatter().parse(text) if name is not None
    ]
    return any("." in name or "[" in name or _peeks(spec or "") for name, spec in fields)


#: The parameters that may hold functions, by primitive.
_LEFT_BEHIND = {
    "custom_jvp_call": ("jvp_jaxpr_fun",),
    "custom_vjp_call": ("fwd_jaxpr_thunk", "bwd", "out_trees"),
    "custom_vmap_call": ("rule",),
    "pure_callback": ("callback",),
    "io_callback": ("callback",),
    "debug_callback": ("callback",),
}


@dataclass(frozen=True, slots=True)
class FunctionName:
    """The carried part of a function: its name, and for a derivative's rule its debug info."""

    name: str
    debug_info: DebugInfo | None


class NotSerializedCall(RuntimeError):
    """A function was called that has stayed in the process where its file was imported."""


def is_serialized_by_name(primitive: str, parameter: str, value: object) -> bool:
    """Whether a parameter of an equation holds a function that is carried by its name alone."""
    function = callable(value) or isinstance(value, WrappedFun)
    return function and parameter in _LEFT_BEHIND.get(primitive, ())


def name_of(function: Any) -> str:
    """A function's name, if it has one."""
    inner = getattr(function, "callback_func", None) or getattr(function, "func", None)
    if isinstance(function, WrappedFun):
        return str(function.debug_info.func_src_info).partition(" ")[0]
    return str(getattr(function, "__name__", None) or (name_of(inner) if inner else "function"))


def behind(function: Any) -> FunctionName:
    """The carried part of a function."""
    debug_info = function.debug_info if isinstance(function, WrappedFun) else None
    return FunctionName(name_of(function), debug_info)


def stand_in(name: str) -> Callable[..., Any]:
    """A function of this name that raises NotSerializedCall."""
    if not isinstance(name, str):
        raise TypeError("a function's name is a text")

    def left_behind(*_: object, **__: object) -> Any:
        raise NotSerializedCall(f"{name} has stayed in the process that traced it")

    left_behind.__name__ = left_behind.__qualname__ = name
    return left_behind


def stand_in_for_rule(name: str, debug_info: object) -> WrappedFun:
    """The same, as JAX wraps the rules of custom derivatives."""
    if not isinstance(debug_info, DebugInfo):
        raise TypeError("a rule needs its debug info")
    return linear_util.wrap_init(stand_in(name), debug_info=debug_info)
