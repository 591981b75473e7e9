"""The rung that asks whether a kernel does the work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from jax.experimental.pallas import tpu as pltpu

from grader.checks.disallowed_shortcuts import check_pallas_used
from pallascope.kernels import TracedLaunch
from pallascope.kernels.lowering import for_chip
from pallascope.model import Check, Observation, Trace
from tests.pallascope.support.calls import call, doubling, output, trace
from tests.pallascope.support.core_map_kernels import add_by_copies, add_in_core_map, launched
from tests.support.factories import attempt, evidence

LAYOUT = ("reshape", "transpose")


IN_THE_BODY = "Move the computation into the kernel's body"


def told(traced: Trace, outside: tuple[str, ...] = LAYOUT, advice: str = IN_THE_BODY) -> str:
    finding = check_pallas_used(evidence(attempt(traced=traced), outside=outside))
    assert finding is not None
    assert finding.check is Check.PALLAS_USED
    assert advice in finding.message
    return f"{finding.phrase}\n{finding.message}"


def test_a_kernel_and_layout_around_it() -> None:
    assert check_pallas_used(evidence(attempt())) is None
    fine = trace(doubling(), outside=("reshape", "reshape", "transpose"))
    assert check_pallas_used(evidence(attempt(traced=fine), outside=LAYOUT)) is None
    assert check_pallas_used(evidence(Observation())) is None


@pytest.mark.parametrize("launch", [add_by_copies, add_in_core_map])
def test_a_kernel_of_another_kind_counts(launch: Callable[..., Any]) -> None:
    with for_chip("TPU v5 lite", 1):
        traced = TracedLaunch.of(launch, [np.ones((32, 128), np.float32)], {}).trace()
    assert (
        check_pallas_used(evidence(attempt(traced=traced), outside=("broadcast_in_dim",))) is None
    )


def test_a_kernel_over_a_mesh_may_not_call_the_host() -> None:
    def launch(x: Any) -> Any:
        def kernel(x_ref: Any, o_ref: Any) -> None:
            pltpu.sync_copy(x_ref, o_ref)
            jax.pure_callback(lambda: None, None)

        return launched(kernel, x)(x)

    with for_chip("TPU v5 lite", 1):
        traced = TracedLaunch.of(launch, [np.ones((32, 128), np.float32)], {}).trace()
    assert told(traced).startswith("the kernel calls back to the host\n")


def test_no_kernel() -> None:
    assert told(trace(outside=("mul",))).startswith("no pallas_call\n")


def test_a_callback_to_the_host() -> None:
    host = call(output(), callbacks=("pure_callback", "io_callback", "pure_callback"))
    said = told(trace(host))
    assert said.startswith("the kernel calls back to the host\n")
    assert "The kernel contains io_callback and pure_callback" in said


def test_work_outside_is_counted() -> None:
    said = told(trace(doubling(), outside=("mul", "reshape", "mul", "sin")))
    assert said.startswith("work outside the kernel: mul (2×) and sin\n")
    assert "Allowed around this kernel: reshape and transpose" in said
    assert "through HBM" in said


@pytest.mark.parametrize("loop", ["scan", "while"])
def test_a_loop_around_the_kernel_is_told_of_the_grid(loop: str) -> None:
    traced = trace(doubling(), outside=(loop,))
    finding = check_pallas_used(evidence(attempt(traced=traced), outside=LAYOUT))
    assert finding
    assert "Let the grid be the loop." in finding.message


def test_the_key_says_what_is_allowed() -> None:
    traced = trace(doubling(), outside=("reshape",))
    said = told(traced, outside=(), advice="let BlockSpecs cut it")
    assert "Allowed around this kernel: operations that move nothing" in said
    assert check_pallas_used(evidence(attempt(traced=traced), outside=("reshape",))) is None


def test_a_decoy() -> None:
    said = told(trace(doubling(), from_kernel=(False,)))
    assert said.startswith("a result does not come from the kernel\n")


def test_one_of_two_results_from_elsewhere() -> None:
    results = trace(doubling()).results * 2
    said = told(trace(doubling(), results=results, from_kernel=(True, False)))
    assert said.startswith("a result does not come from the kernel\n")


def test_a_decoy_beside_work_is_told_as_work() -> None:
    said = told(trace(doubling(), outside=("mul",), from_kernel=(False,)))
    assert said.startswith("work outside the kernel: mul\n")
