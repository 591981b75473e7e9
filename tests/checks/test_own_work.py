"""The rung that asks whether the work is the file's own, made of JAX's operations."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.checks.disallowed_shortcuts import CALLBACKS, check_own_work
from grader.exercise.key_tables import Randomness
from pallascope.model import (
    ArrayType,
    Check,
    Constant,
    Observation,
    Operation,
    Trace,
)
from tests.pallascope.support.calls import doubling, trace
from tests.support.factories import FILE, attempt, evidence, with_key

TILE = ArrayType("float32", (128, 128))
TABLE = Constant(TILE, 64 << 10, line=9)


def told(traced: Trace, kernel: bool = True) -> str:
    finding = check_own_work(evidence(attempt(traced=traced), kernel=kernel))
    assert finding is not None
    assert finding.check is Check.OWN_WORK
    assert "  why" in finding.message
    assert "  try" in finding.message
    return f"{finding.phrase}\n{' '.join(finding.message.split())}"


def test_nothing_is_said_of_a_kernel_made_of_jax() -> None:
    assert check_own_work(evidence(attempt())) is None
    assert check_own_work(evidence(Observation())) is None
    assert (
        check_own_work(evidence(attempt(traced=trace(outside=("cumsum",))), kernel=False)) is None
    )


def test_a_kernel_from_elsewhere() -> None:
    shipped = "jax/experimental/pallas/ops/tpu/matmul.py"
    said = told(trace(replace(doubling(), foreign=shipped, line=12)))
    assert said.startswith(f"the kernel is not yours: {shipped}\n")
    assert f"The body of double, or a part of it, is written in {shipped}" in said
    assert f"{FILE}:12" in said


@pytest.mark.parametrize("kernel", [True, False])
def test_a_table_in_the_launch(kernel: bool) -> None:
    small = Constant(ArrayType("int32", (2048,)), 8 << 10)
    said = told(trace(doubling(), constants=(small, TABLE)), kernel)
    assert said.startswith("a table of 64 KiB in the launch: float32[128, 128]\n")
    assert "and 1 more" in said
    assert f"{FILE}:9" in said


@pytest.mark.parametrize("name", CALLBACKS)
def test_without_a_kernel_nothing_may_be_done_on_the_host(name: str) -> None:
    asked = trace(outside=("cumsum", Operation(name, line=4), "add"))
    said = told(asked, kernel=False)
    assert said.startswith(f"calls back to the host: {name}\n")
    assert f"{FILE}:4" in said


def test_printing_is_no_work() -> None:
    asked = trace(outside=("cumsum", "debug_print"))
    assert check_own_work(evidence(attempt(traced=asked), kernel=False)) is None


@pytest.mark.parametrize(("line", "shown"), [(7, True), (0, False)])
def test_random_bits_are_for_what_is_random(line: int, shown: bool) -> None:
    drawing = trace(doubling(), draws=line)
    said = told(drawing)
    assert said.startswith("draws random bits\n")
    assert (f"{FILE}:7" in said) is shown
    random = with_key(evidence(attempt(traced=drawing)), random=Randomness("seed", ("a", "b")))
    assert check_own_work(random) is None


def test_where_no_line_is_known_none_is_named() -> None:
    assert FILE not in told(trace(doubling(), constants=(replace(TABLE, line=0),)))


@pytest.mark.parametrize("kernel", [True, False])
def test_what_comes_from_the_spec_is_no_work(kernel: bool) -> None:
    said = told(trace(doubling(), from_spec=5), kernel)
    assert said.startswith("it calls the spec\n")
    assert f"{FILE}:5" in said
    assert "Called under another name, it is still the spec" in said
