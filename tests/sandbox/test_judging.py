"""What the running worker says of copies that a kernel starts by hand."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from grader.sandbox.judge_worker import answer
from grader.sandbox.messages import RunResult, RunTrace, TargetDevice, eager_copies
from grader.verdict import Case
from pallascope.kernels import TracedLaunch, for_chip
from pallascope.model import DmaHazard, Mode, SourceFile
from pallascope.tools import arrays, codec
from tests.support import copying_kernels as kernels


@pytest.fixture(autouse=True, scope="module")
def cpu() -> None:
    jax.config.update("jax_platforms", "cpu")


def ran(bug: str, eager: bool) -> RunResult:
    """The answer of a process that knows the trace alone."""
    with for_chip("TPU v5 lite", 1):
        trace = TracedLaunch.of(kernels.through_vmem(bug), (kernels.X,), {}).dumped()
    with open(kernels.__file__, "rb") as file:
        source = SourceFile(kernels.__file__, file.read())
    inputs = (arrays.from_numpy(kernels.X),)
    launch = (source, trace, inputs, TargetDevice("v5e"), "copied")
    question = RunTrace(*launch, Mode.STRICT, 1, eager=eager)
    found = answer(question)
    assert isinstance(found, RunResult)
    return found


def test_what_went_wrong_crosses_over_with_its_lines() -> None:
    found = ran("leaves", eager=False)
    (fault,) = found.copy_faults
    assert fault.hazard is DmaHazard.NEVER_AWAITED
    assert fault.line is not None
    assert fault.line.text == "out.start()"
    assert codec.from_builtins(RunResult, codec.to_builtins(found)) == found


def test_copies_happen_when_they_are_waited_for_or_when_they_start() -> None:
    late, eager = (ran("leaves", eager) for eager in (False, True))
    outputs = [arrays.to_numpy(one.outputs[0]) for one in (late, eager)]
    assert np.isnan(outputs[0]).all()
    np.testing.assert_array_equal(outputs[1], kernels.X)
    assert late.copy_faults == eager.copy_faults


def test_hidden_cases_take_turns() -> None:
    turns = [
        eager_copies(Case("1_first/kata_01_double", at, 1, 1, {}, "float32")) for at in range(4)
    ]
    assert turns == [False, True, False, True]
