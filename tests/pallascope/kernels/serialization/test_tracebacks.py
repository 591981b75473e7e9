"""Source lines, as data and as tracebacks."""

from __future__ import annotations

import traceback
from typing import Any

import jax
import pytest

from pallascope.kernels.calls import kernel_call
from pallascope.kernels.lowering import NotLowered, TracedKernel, for_chip, lower
from pallascope.kernels.serialization.wire_format import Frame, stack_of, tracebacks
from pallascope.model import RunCount
from tests.pallascope.support import lowering_errors
from tests.pallascope.support.sample_traces import carried, traced

INNER = Frame("/somewhere/a.py", "kernel.<locals>.body", 12, 4, 12, 30)
OUTER = Frame("/somewhere/b.py", "launch", 40, 300, 45, 9)
FIRST = Frame("/somewhere/c.py", "<module>", 1, 0, 1, 1)


@pytest.mark.parametrize(
    "stack", [(INNER,), (INNER, OUTER, FIRST), (OUTER, INNER), (INNER, INNER), ()]
)
def test_there_and_back(stack: tuple[Frame, ...]) -> None:
    (made,) = tracebacks([stack])
    assert stack_of(made) == stack


def test_many_at_once() -> None:
    stacks = [(INNER._replace(line=n, end_line=n + n % 3), OUTER) for n in range(1, 3000, 7)]
    assert list(map(stack_of, tracebacks(stacks))) == stacks


def test_as_python_shows_them() -> None:
    (made,) = tracebacks([(INNER, OUTER)])
    shown = traceback.extract_tb(made.as_python_traceback())
    assert [(f.filename, f.name, f.lineno) for f in shown] == [
        ("/somewhere/b.py", "launch", 40),
        ("/somewhere/a.py", "body", 12),
    ]


def kernel_of(eqn: Any) -> TracedKernel:
    def function(*arrays: Any) -> Any:
        return eqn.primitive.bind(*arrays, **eqn.params)

    args = tuple(jax.ShapeDtypeStruct(var.aval.shape, var.aval.dtype) for var in eqn.invars)
    return TracedKernel(kernel_call(eqn), function, args, (), eqn, RunCount())


def refusal(closed: Any) -> tuple[Any, ...] | None:
    """What Mosaic says of a trace's kernel, and from which of our lines it came."""
    try:
        with for_chip("TPU v5 lite", 1):
            lower(kernel_of(closed.eqns[-1]))
    except NotLowered as error:
        shown = traceback.extract_tb(error.__traceback__)
        lines = [(f.lineno, f.name) for f in shown if f.filename == lowering_errors.__file__]
        return str(error), error.operation, lines
    return None


@pytest.mark.parametrize("chunk", range(3))
def test_what_mosaic_refuses_keeps_its_lines(chunk: int) -> None:
    with_lines = 0
    for pair in list(lowering_errors.pairs())[chunk::3]:
        if jax.__version__.startswith(pair.only):
            function, args = pair.launch("refused")
            closed = traced(function, *args)
            if closed.eqns[-1].primitive.name == "pallas_call":
                told = refusal(carried(closed))
                assert told == refusal(closed), pair
                with_lines += bool(told and told[2])
    assert with_lines > 10
