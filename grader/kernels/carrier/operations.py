"""JAX's own primitives, by the module and the name that they have there."""

from __future__ import annotations

import functools
from collections.abc import Mapping

# All that a launch for a TPU may hold has to be imported before it is looked up.
import jax.experimental.pallas.tpu
import jax.experimental.shard_map  # noqa: F401
from jax.extend import core

from grader.kernels.jax_internals import imported

Home = tuple[str, str]

#: Operations of JAX's own that are not carried, by name, and what is wrong with each. With the
#: first a launch would be two in one; the last calls any code of the process.
REFUSED = {
    "platform_index": "which asks for what platform it is compiled: it is several launches in one",
    "ffi_call": "which calls code outside of JAX",
}


@functools.cache
def of_jax() -> Mapping[core.Primitive, Home]:
    """Every primitive that a module of JAX's holds, and where."""
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
    """Forget the tables: more of JAX's modules are imported now."""
    for kept in (of_jax, _by_home):
        kept.cache_clear()


def home_of(primitive: core.Primitive) -> Home | None:
    """In which of JAX's modules a primitive is, and by which name; None where it isn't JAX's."""
    return of_jax().get(primitive)


def primitive_at(module: str, name: str) -> core.Primitive:
    """The primitive of this name in this module of JAX's. Raises KeyError."""
    return _by_home()[module, name]
