"""A launch may not call its spec: that would be right, and teach nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType


@contextlib.contextmanager
def without_spec(module: ModuleType, name: str, refusal: Exception) -> Iterator[None]:
    """Have `NAME_spec` of a kata's module raise `refusal`, under whatever name it is called.

    The function object gets other code, so that an alias, a partial and jax.jit of it raise too. A
    copy that was made of its code before is told from the trace (`Trace.from_spec`).
    """
    spec = getattr(module, f"{name}_spec", None)
    if not isinstance(spec, FunctionType) or spec.__closure__:
        yield
        return
    usual = spec.__code__
    spec.__code__ = _raising(refusal, usual)
    try:
        yield
    finally:
        spec.__code__ = usual


def _raising(error: Exception, usual: CodeType) -> CodeType:
    """Code that takes anything and raises `error`, whatever its globals and builtins hold."""

    def refused(*_: object, **__: object) -> None:
        raise "the error"  # type: ignore[misc]  # noqa: B016

    code = refused.__code__
    constants = tuple(error if one == "the error" else one for one in code.co_consts)
    return code.replace(co_consts=constants, co_name=usual.co_name)
