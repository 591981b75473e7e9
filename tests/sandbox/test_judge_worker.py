"""What the running worker says of copies that a kernel starts by hand, and of runs that raise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

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


def ran(
    launch: kernels.Launch, eager: bool = False, cores: int = 1, path: str = kernels.__file__
) -> RunResult:
    """The answer of a process that knows the trace alone."""
    with for_chip("TPU v5 lite", 1):
        trace = TracedLaunch.of(launch, (kernels.X,), {}).dumped()
    source = SourceFile(path, Path(path).read_bytes())
    inputs = (arrays.from_numpy(kernels.X),)
    traced = (source, trace, inputs, TargetDevice("v5e"), "copied")
    question = RunTrace(*traced, Mode.STRICT, cores, eager=eager)
    found = answer(question)
    assert isinstance(found, RunResult)
    return found


def test_what_went_wrong_crosses_over_with_its_lines() -> None:
    found = ran(kernels.through_vmem("leaves"))
    (fault,) = found.copy_faults
    assert fault.hazard is DmaHazard.NEVER_AWAITED
    assert fault.line is not None
    assert fault.line.text == "out.start()"
    assert codec.from_builtins(RunResult, codec.to_builtins(found)) == found


def test_copies_happen_when_they_are_waited_for_or_when_they_start() -> None:
    late, eager = (ran(kernels.through_vmem("leaves"), eager) for eager in (False, True))
    outputs = [arrays.to_numpy(one.outputs[0]) for one in (late, eager)]
    assert np.isnan(outputs[0]).all()
    np.testing.assert_array_equal(outputs[1], kernels.X)
    assert late.copy_faults == eager.copy_faults


def test_hidden_cases_take_turns() -> None:
    turns = [
        eager_copies(Case("1_first/kata_01_double", at, 1, 1, {}, "float32")) for at in range(4)
    ]
    assert turns == [False, True, False, True]


def reads_beyond_the_end(x: jax.Array) -> jax.Array:
    """Each of two cores reads beyond the end of X, in its last step."""

    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...]

    return pl.pallas_call(
        kernel,
        grid=(4,),
        in_specs=[pl.BlockSpec((8, 128), lambda i: (i + 4 * (i % 2), 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
    )(x)


def test_a_run_on_two_cores_always_says_the_same_of_the_step_that_fails() -> None:
    found = [ran(reads_beyond_the_end, cores=2, path=__file__).problem for _ in range(12)]
    assert found[0] is not None
    assert "Out-of-bounds" in found[0].message
    assert found == found[:1] * 12
    assert found[0] == ran(reads_beyond_the_end, cores=1, path=__file__).problem
