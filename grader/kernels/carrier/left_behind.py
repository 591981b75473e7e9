"""What stands for the functions in a trace: derivatives' rules, memoised thunks, callbacks.

Nothing that is asked of a trace calls a rule or a thunk. A callback is a finding before it could
run; one that does run raises.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from grader.kernels.jax_internals import DebugInfo, WrappedFun, linear_util

#: Where functions may be, by primitive and parameter.
_LEFT_BEHIND = {
    "custom_jvp_call": ("jvp_jaxpr_fun",),
    "custom_vjp_call": ("fwd_jaxpr_thunk", "bwd", "out_trees"),
    "custom_vmap_call": ("rule",),
    "pure_callback": ("callback",),
    "io_callback": ("callback",),
    "debug_callback": ("callback",),
}


@dataclass(frozen=True, slots=True)
class Behind:
    """What is carried of a function: its name, and of a derivative's rule its debug info."""

    name: str
    debug_info: DebugInfo | None


class LeftBehind(RuntimeError):
    """A function was called that has stayed in the process where its file was imported."""


def stays_behind(primitive: str, parameter: str, value: object) -> bool:
    """Whether a parameter of an equation holds a function that is carried by its name alone."""
    function = callable(value) or isinstance(value, WrappedFun)
    return function and parameter in _LEFT_BEHIND.get(primitive, ())


def name_of(function: Any) -> str:
    """What a function is called, as far as it says."""
    inner = getattr(function, "callback_func", None) or getattr(function, "func", None)
    if isinstance(function, WrappedFun):
        return str(function.debug_info.func_src_info).partition(" ")[0]
    return str(getattr(function, "__name__", None) or (name_of(inner) if inner else "function"))


def behind(function: Any) -> Behind:
    """What is carried of a function."""
    debug_info = function.debug_info if isinstance(function, WrappedFun) else None
    return Behind(name_of(function), debug_info)


def stand_in(name: str) -> Callable[..., Any]:
    """A function of this name that raises LeftBehind."""
    if not isinstance(name, str):
        raise TypeError("a function's name is a text")

    def left_behind(*_: object, **__: object) -> Any:
        raise LeftBehind(f"{name} has stayed in the process that traced it")

    left_behind.__name__ = left_behind.__qualname__ = name
    return left_behind


def stand_in_for_rule(name: str, debug_info: object) -> WrappedFun:
    """The same, as JAX wraps the rules of custom derivatives."""
    if not isinstance(debug_info, DebugInfo):
        raise TypeError("a rule needs its debug info")
    return linear_util.wrap_init(stand_in(name), debug_info=debug_info)
