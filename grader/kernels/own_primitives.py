"""Which operations of a trace are JAX's own: known by the object, not by the name that it has.

Anybody can make a `Primitive("reshape")` that lowers to a matrix product.
"""

from __future__ import annotations

import functools
import sys
from types import ModuleType

from jax.extend import core


def is_jaxs(eqn: core.JaxprEqn) -> bool:
    """Whether an equation is an operation of JAX's: its primitive is one that JAX's modules hold.

    On jax 0.12 an operation may also be an object among the parameters (`hijax`): its class then
    has to be JAX's.
    """
    found = _jaxs(len(sys.modules))
    if id(eqn.primitive) not in found:
        return False
    if not eqn.primitive.name.startswith("call_hi_primitive"):
        return True
    return all(id(type(value)) in found for value in eqn.params.values() if _is_hijax(value))


def _is_hijax(value: object) -> bool:
    hijax = sys.modules.get("jax._src.hijax")
    names = ("HiPrim", "HiPrimitive", "VJPHiPrimitive")
    bases = tuple(base for name in names if isinstance(base := getattr(hijax, name, None), type))
    return isinstance(value, bases)


@functools.cache
def _jaxs(_loaded: int) -> dict[int, object]:
    """The primitives, and the classes of `hijax` operations, in the modules of jax by their ids.

    `_loaded` is how many modules there are: jax imports some of its own late.
    """
    found: dict[int, object] = {}
    for name, module in list(sys.modules.items()):
        if not isinstance(module, ModuleType) or not f"{name}.".startswith("jax."):
            continue
        for value in list(vars(module).values()):
            if isinstance(value, core.Primitive) or (
                isinstance(value, type) and _is_operation(value)
            ):
                found[id(value)] = value
    return found


def _is_operation(kind: type) -> bool:
    return any(base.__module__ == "jax._src.hijax" for base in kind.__mro__[1:])
