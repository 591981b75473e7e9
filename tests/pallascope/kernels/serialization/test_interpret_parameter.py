"""Who asks to be interpreted, and how kernels run once that is decided for them."""

from __future__ import annotations

import inspect
from typing import Any

import jax
import numpy as np
import pytest
from jax.experimental.pallas import tpu as pltpu

from pallascope.kernels.serialization import asks_to_interpret, with_interpret
from tests.pallascope.support.sample_traces import (
    NESTED,
    X,
    carried,
    doubling,
    lowered,
    run,
    traced,
)

STRICT = pltpu.InterpretParams(uninitialized_memory="nan", detect_races=True)


@pytest.mark.parametrize("name", NESTED)
def test_wherever_a_kernel_is_nested(name: str) -> None:
    closed = carried(traced(NESTED[name], X))
    before = str(closed)
    np.testing.assert_array_equal(run(with_interpret(closed, STRICT), X), 2 * X)
    assert str(closed) == before
    assert "tpu_custom_call" in lowered(with_interpret(with_interpret(closed, STRICT), False))


@pytest.mark.parametrize("name", ["pallas_call", "scan", "emit_pipeline"])
def test_the_plain_interpreter(name: str) -> None:
    closed = carried(traced(NESTED[name], X))
    np.testing.assert_array_equal(run(with_interpret(closed, True), X), 2 * X)


@pytest.mark.parametrize("asked", [True, STRICT], ids=["plain", "strict"])
def test_what_a_launch_asks_for_itself_is_told_and_replaced(asked: Any) -> None:
    closed = carried(traced(jax.jit(doubling(asked)), X))
    lines, first = inspect.getsourcelines(doubling)
    calls = [first + at for at, line in enumerate(lines) if "pl.pallas_call(" in line]
    assert list(asks_to_interpret(closed)) == calls
    compiled = with_interpret(closed, False)
    assert asks_to_interpret(compiled) == ()
    assert "tpu_custom_call" in lowered(compiled)


def test_a_mode_that_is_forced_within_a_launch_is_told() -> None:
    def launch(x: Any) -> Any:
        with pltpu.force_tpu_interpret_mode(pltpu.InterpretParams()):
            return doubling()(x)

    assert len(asks_to_interpret(carried(traced(launch, X)))) == 1


@pytest.mark.parametrize("name", NESTED)
def test_who_asks_for_nothing(name: str) -> None:
    assert asks_to_interpret(traced(NESTED[name], X)) == ()


def test_a_trace_without_kernels_stays_as_it_is() -> None:
    closed = traced(lambda x: jax.lax.fori_loop(0, 3, lambda _, y: y * 2, x), X)
    assert str(with_interpret(closed, STRICT)) == str(closed)
    assert with_interpret(closed, STRICT).effects == closed.effects


def test_dimensions_that_vmap_adds_are_parallel() -> None:
    semantics = pltpu.CompilerParams(dimension_semantics=("arbitrary",))
    closed = carried(traced(jax.vmap(doubling(compiler_params=semantics)), np.stack([X, X + 1])))
    changed = with_interpret(closed, STRICT)
    (call,) = (eqn for eqn in changed.eqns if eqn.primitive.name == "pallas_call")
    assert call.params["compiler_params"].dimension_semantics == ("parallel", "arbitrary")
    np.testing.assert_array_equal(run(changed, np.stack([X, X + 1])), 2 * np.stack([X, X + 1]))
    assert "tpu_custom_call" in lowered(with_interpret(closed, False))
