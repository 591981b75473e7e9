"""What Mosaic refuses to lower: which operation, and the lines that it was traced from."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from types import TracebackType

from jax.extend import core

from grader.kernels.calls import array_type
from grader.kernels.jaxprs import Shaped, inner_jaxprs
from grader.kernels.pallas_params import KERNELS, body
from grader.model import KernelCall, Operation

_LOCATION = re.compile(r'loc\("(?:[^"]*/)?([^"/:]+):?"')
_JITTED = ("jit", "pjit")
_LINE = re.compile(r'"([^"]+)":(\d+)')


class NotLowered(Exception):
    """Mosaic has refused a kernel.

    Its text is that of Mosaic's own exception (its cause), the class name first. `operation` is
    what was being lowered; None where Mosaic refuses the launch, not an operation. `call` is the
    kernel. The traceback ends in the lines from which the operation was traced.
    """

    call: KernelCall | None = None

    def __init__(self, message: str, operation: Operation | None) -> None:
        super().__init__(message)
        self.operation = operation


def not_lowered(error: Exception, kernel: core.JaxprEqn) -> NotLowered:
    """Mosaic's exception while it lowered `kernel`, with the operation that it is about."""
    # From the outermost in: a launch, a loop, a jitted function, the operation itself.
    nested = [kernel, *_being_lowered(error)]
    if len(nested) == 1:
        nested += _verified(error, body(kernel))
    refused = NotLowered(f"{type(error).__name__}: {error}", _operation(nested[1:]))
    return refused.with_traceback(_lines(nested))


def _being_lowered(error: Exception) -> list[core.JaxprEqn]:
    """The equations of the kernel whose lowering was under way when the exception was raised."""
    local = (frame.f_locals.get("eqn") for frame, _ in traceback.walk_tb(error.__traceback__))
    eqns = {id(eqn): eqn for eqn in local if isinstance(eqn, core.JaxprEqn)}
    return [eqn for eqn in eqns.values() if eqn.primitive.name not in KERNELS]


def _verified(error: Exception, kernel: core.Jaxpr) -> list[core.JaxprEqn]:
    """The equations around the one whose lowered form the verifier of MLIR rejects."""
    text = _location(error)
    if not (name := _LOCATION.search(text)):
        return []
    line = _LINE.search(text)
    wanted = (line[1], int(line[2])) if line else None
    matching = (
        nested
        for nested in _nested(kernel)
        if nested[-1].primitive.name == name[1] and _own_line(nested[-1]) == wanted
    )
    return next(matching, [])


def _location(error: BaseException | None) -> str:
    """Where MLIR's verifier says the trouble is: primitive, and the user's lines; else ""."""
    while error is not None:
        for diagnostic in getattr(error, "error_diagnostics", ()):
            return str(diagnostic.location)
        error = error.__cause__ or error.__context__
    return ""


def _nested(jaxpr: core.Jaxpr) -> Iterator[list[core.JaxprEqn]]:
    """Each equation with those that it is part of, the outermost first."""
    for eqn in jaxpr.eqns:
        yield [eqn]
        for inner in inner_jaxprs(eqn):
            yield from ([eqn, *eqns] for eqns in _nested(inner))


def _own_line(eqn: core.JaxprEqn) -> tuple[str, int] | None:
    """File and line, outside of jax, of an equation; None inside what jax itself has jitted."""
    from grader.kernels.jax_internals import user_frames

    frame = next(iter(user_frames(eqn.source_info.traceback)), None)
    return (frame.file_name, frame.start_line) if frame else None


def _operation(nested: list[core.JaxprEqn]) -> Operation | None:
    """The innermost equation; and the function of jax's that it is part of, if there is one."""
    if not nested:
        return None
    own = [at for at, eqn in enumerate(nested) if _own_line(eqn)]
    inside = nested[own[-1] : -1] if own else []
    names = [_called(eqn) for eqn in inside if eqn.primitive.name in _JITTED]
    name = _called(nested[-1])
    types = (array_type(var.aval) for var in nested[-1].invars if isinstance(var.aval, Shaped))
    within = names[0] if names and names[0] != name else ""
    return Operation(name, tuple(types), within)


def _called(eqn: core.JaxprEqn) -> str:
    """The name of a jitted function, else of the primitive."""
    jitted = eqn.primitive.name in _JITTED
    return str(eqn.params["name"]).strip("_") if jitted else eqn.primitive.name


def _lines(nested: list[core.JaxprEqn]) -> TracebackType | None:
    """One traceback out of those of all equations, each below the one it is part of."""
    traces = [eqn.source_info.traceback for eqn in nested]
    joined = None
    for trace in reversed([t.as_python_traceback() for t in traces if t is not None]):
        frames = list(_links(trace))
        if frames:
            frames[-1].tb_next = joined
            joined = frames[0]
    return joined


def _links(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next
