"""Refs outside of kernels become values, and every kernel is a call that returns something."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import pytest
from jax.experimental import pallas as pl

from pallascope.kernels import TracedLaunch
from pallascope.kernels.evaluator import without_refs
from pallascope.kernels.lowering import for_chip
from pallascope.model import Role
from tests.pallascope.support import core_map_kernels as launches
from tests.pallascope.support.launches import copies, on_v5e, shape

WHOLE = pl.BlockSpec((256, 128), lambda i: (0, 0))
X = shape("float32", 256, 128)


@pytest.fixture(autouse=True, scope="module")
def cpu() -> None:
    jax.config.update("jax_platforms", "cpu")


def traced(function: Callable[..., Any], *args: Any) -> Any:
    return jax.jit(function).trace(*args).jaxpr


def test_a_trace_without_refs_stays_as_it_is() -> None:
    with for_chip("TPU v5 lite", 1):
        for launch in (launches.add_by_copies, copies("float32", X.shape, WHOLE)[0]):
            closed = traced(launch, X)
            assert without_refs(closed) is closed


@pytest.mark.parametrize("launch", [launches.add_in_core_map, launches.add_in_run_state])
@pytest.mark.parametrize("jitted", [False, True])
def test_a_core_map_returns_what_it_writes(launch: Callable[..., Any], jitted: bool) -> None:
    with for_chip("TPU v5 lite", 1):
        trace = TracedLaunch.of(jax.jit(launch) if jitted else launch, [X], {}).trace()
    (call,) = trace.calls
    assert trace.from_kernel == (True,)
    assert not {"core_map", "new_ref", "run_state", "get"} & set(trace.outside)
    assert len(call.role(Role.OUTPUT)) == 1


def test_a_core_map_that_writes_nothing_of_the_result() -> None:
    def launch(x: Any) -> Any:
        launches.add_in_core_map(x)
        return x * 2

    with for_chip("TPU v5 lite", 1):
        trace = TracedLaunch.of(launch, [X], {}).trace()
    assert trace.from_kernel == (False,)
    assert "mul" in {operation.name for operation in trace.outside}


def test_a_kernel_in_a_loop_is_found() -> None:
    def launch(x: Any) -> Any:
        return jax.lax.fori_loop(0, 3, lambda _, x: launches.add_in_core_map(x), x)

    assert on_v5e(launch, X).call.cores == 1
