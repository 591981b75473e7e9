"""The spec raises under whatever name it is called, for as long as a launch is traced."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import jax
import numpy as np
import pytest

from grader.exercise.specs import spec_disabled
from pallascope.kernels import TracedLaunch

X = np.ones(8, np.float32)


def doubled_spec(x: Any) -> Any:
    return x + x


def module() -> ModuleType:
    made = ModuleType("made")
    vars(made)["doubled_spec"] = doubled_spec
    return made


class Refused(Exception):
    pass


alias = doubled_spec


@pytest.mark.parametrize(
    "call",
    [alias, functools.partial(doubled_spec), jax.jit(doubled_spec), lambda x: doubled_spec(x=x)],
    ids=["alias", "partial", "jitted", "by-keyword"],
)
def test_it_raises_under_any_name(call: Callable[[Any], Any]) -> None:
    with spec_disabled(module(), "doubled", Refused("no")), pytest.raises(Refused, match="no"):
        call(X)
    np.testing.assert_array_equal(doubled_spec(X), 2 * X)


def test_a_module_without_a_spec_is_left_alone() -> None:
    with spec_disabled(module(), "other", Refused()):
        np.testing.assert_array_equal(doubled_spec(X), 2 * X)


def test_a_copy_of_its_code_is_told_from_the_trace() -> None:
    copy = FunctionType(doubled_spec.__code__, globals())
    line = doubled_spec.__code__.co_firstlineno + 1
    for function in (copy, jax.jit(copy), lambda x: copy(x) * 1):
        trace = TracedLaunch.of(function, (X,), {}).trace(__file__, "doubled_spec")
        assert trace.from_spec == line
    renamed = FunctionType(doubled_spec.__code__.replace(co_name="mine"), globals())
    trace = TracedLaunch.of(renamed, (X,), {}).trace(
        __file__, "doubled_spec", range(line, line + 1)
    )
    assert trace.from_spec == line
    own = TracedLaunch.of(lambda x: x + x, (X,), {}).trace(__file__, "doubled_spec")
    assert own.from_spec == 0
