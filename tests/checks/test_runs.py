"""What did not import, trace or end is told in words, with advice that fits JAX's own texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

from grader.checks.runs import check, exception_advice, first_paragraph
from grader.kernels import TracedLaunch
from grader.model import Accident, Check, Observation, Place, Problem, Source, Stage
from grader.sandbox.problems import NotGraded, caught
from tests.support.making import FILE, NOWHERE, attempt, evidence

LINE = Place(12, "o_ref[...] = x_ref + 1")
PROBLEM = Problem(Stage.TRACE, "ValueError", "no such thing\nat all", LINE)


def problem(kind: str, message: str, line: str = "") -> Problem:
    return Problem(Stage.TRACE, kind, message, Place(1, line) if line else None)


@pytest.fixture(autouse=True, scope="module")
def cpu() -> None:
    jax.config.update("jax_platforms", "cpu")


def told(tried: Observation | Accident) -> str:
    finding = check(evidence(tried))
    assert finding is not None
    assert finding.check is Check.RUNS
    return f"{finding.phrase}\n{finding.message}"


def test_what_ran_is_fine() -> None:
    assert check(evidence(attempt())) is None


def test_what_was_raised_while_running_is_for_the_values_rung() -> None:
    assert check(evidence(Observation(problem=replace(PROBLEM, stage=Stage.RUN)))) is None


@pytest.mark.parametrize("place", [None, LINE])
def test_an_accident_is_told_as_the_bench_saw_it(place: Place | None) -> None:
    said = told(Accident("crashed (SIGSEGV)", "The process crashed.", place))
    assert said.startswith("crashed (SIGSEGV)\nThe process crashed.")
    assert (f"{FILE}:12" in said) == ("x_ref + 1" in said) == (place is LINE)


@pytest.mark.parametrize(
    ("stage", "when"), [(Stage.IMPORT, "cannot be imported"), (Stage.TRACE, "cannot be traced")]
)
def test_an_exception_is_told_with_its_line(stage: Stage, when: str) -> None:
    said = told(Observation(problem=replace(PROBLEM, stage=stage)))
    assert said.startswith("ValueError: no such thing\n")
    assert when in said
    assert "at all" in said
    assert f"{FILE}:12" in said
    assert "o_ref[...] = x_ref + 1" in said
    assert "  try " not in said


def test_an_exception_without_text_or_line() -> None:
    said = told(Observation(problem=Problem(Stage.TRACE, "AssertionError", "")))
    assert said.startswith("AssertionError: \n")
    assert FILE not in said


@pytest.mark.parametrize(
    ("kind", "message", "says"),
    [
        ("SystemExit", "0", ["calls sys.exit", "tried to end the process"]),
        ("Skipped", "not today", ["tries to skip itself", "cannot be skipped (not today)"]),
        (
            "NoDebugger",
            "no terminal",
            ["opens a debugger", "no debugger can be opened: no terminal", "pl.debug_print"],
        ),
    ],
)
def test_ways_out_are_no_ways_out(kind: str, message: str, says: list[str]) -> None:
    said = told(Observation(problem=Problem(Stage.TRACE, kind, message)))
    assert all(words in said for words in says)


# ---- advice ----

ROWS = pl.BlockSpec((8, 128), lambda i: (i, 0))
ARRAY = jax.ShapeDtypeStruct((32, 128), jnp.float32)


def launched(
    kernel: Callable[..., Any], ins: pl.BlockSpec = ROWS, outs: pl.BlockSpec = ROWS
) -> Any:
    call = pl.pallas_call(kernel, grid=(4,), in_specs=[ins], out_specs=outs, out_shape=ARRAY)
    return TracedLaunch.of(call, [np.ones((32, 128), np.float32)], {}).trace()


def adds_to_a_ref(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref + 1


def adds_two_refs(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref + o_ref


def calls_on_a_ref(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = jnp.exp(x_ref)


def sums_a_ref(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...] + x_ref.sum()


def multiplies_refs(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref @ o_ref[...]


def stores_another_dtype(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...].astype(jnp.bfloat16)


def stores_another_shape(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[0:4]


def returns(x_ref: Any, o_ref: Any) -> Any:
    return x_ref[...]


def branches(x_ref: Any, o_ref: Any) -> None:
    if x_ref[0, 0] > 0:
        o_ref[...] = x_ref[...]


def copies(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...]


def takes_three(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
    pass


@pytest.mark.parametrize(
    ("trace", "says"),
    [
        (lambda: launched(adds_to_a_ref), "A Ref is a handle"),
        (lambda: launched(adds_two_refs), "A Ref is a handle"),
        (lambda: launched(calls_on_a_ref), "A Ref is a handle"),
        (lambda: launched(sums_a_ref), "A Ref is a handle"),
        (lambda: launched(multiplies_refs), "A Ref is a handle"),
        (lambda: launched(stores_another_dtype), ".astype(o_ref.dtype)"),
        (lambda: launched(stores_another_shape), "A store must have the shape"),
        (lambda: launched(returns), "A kernel returns nothing"),
        (lambda: launched(branches), "@pl.when"),
        (lambda: launched(takes_three), "A kernel takes one Ref for each input"),
        (lambda: launched(copies, pl.BlockSpec((8, 128), lambda i: i)), "one block index for each"),
        (lambda: launched(copies, pl.BlockSpec((8, 128), lambda i, j: (i, 0))), "one index for"),
        (lambda: launched(copies, pl.BlockSpec((8,), lambda i: (i,))), "one entry for each"),
    ],
)
def test_advice_fits_what_jax_says(trace: Callable[[], Any], says: str, tmp_path: Path) -> None:
    with caught(NOWHERE, Stage.TRACE) as problem:
        trace()
    assert problem.problem
    said = " ".join(told(Observation(problem=problem.problem)).split())
    assert says in said, problem.problem.message


def test_advice_on_a_file_that_lost_its_test() -> None:
    for error in (
        NotGraded("the file has lost its test: def test_double(hidden_case): …"),
        NotGraded("test_double does not call hidden_case.grade(double)"),
    ):
        assert "last lines of the file" in exception_advice(problem("NotGraded", str(error)))


def test_advice_on_memory() -> None:
    with pytest.raises(MemoryError) as raised:
        np.ones(2**50)
    assert "built too large" in exception_advice(
        problem(type(raised.value).__name__, str(raised.value))
    )


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("PermissionError", "[Errno 13] Permission denied: '/etc/passwd'"),
        ("OSError", "[Errno 1] Operation not permitted"),
        ("BlockingIOError", "[Errno 11] busy"),
    ],
)
def test_what_isolation_refuses_is_explained(kind: str, message: str) -> None:
    told = "--kata-isolation off" in exception_advice(problem(kind, message))
    assert told is (kind != "BlockingIOError")


def test_a_module_that_lies_beside_the_file_is_explained() -> None:
    advice = exception_advice(problem("ModuleNotFoundError", "No module named 'helpers'"))
    assert "A kata is one file" in advice


def test_no_advice_on_the_unknown() -> None:
    assert exception_advice(problem("ZeroDivisionError", "division by zero")) == ""
    assert exception_advice(problem("ValueError", "could not broadcast input array")) == ""


def test_advice_on_a_slice_differs_from_that_on_a_branch() -> None:
    kind, message = "TracerBoolConversionError", "Attempted boolean conversion of traced array"
    assert "pl.ds" in exception_advice(
        problem(kind, message, "o_ref[...] = x_ref[i * 8 : i * 8 + 8]")
    )
    assert "pl.when" in exception_advice(problem(kind, message, "if x_ref[0] > 0:"))
    assert "pl.when" in exception_advice(problem(kind, message))


@pytest.mark.parametrize(
    ("plain", "words"),
    [
        (lambda x: x if x[0] > 0 else -x, "jnp.where"),
        (lambda x: [int(n) for n in x], "cannot look at one"),
        (lambda x: jnp.zeros(x[0]), "cannot depend on a value"),
        (lambda x: jnp.repeat(x, x), "total_repeat_length"),
        (lambda x: x[x > 0], "keeps the shape"),
        (lambda x: np.asarray(x) + 1, "whole arrays"),
    ],
)
def test_advice_where_there_is_no_kernel(plain: Callable[[Any], Any], words: str) -> None:
    """What jit refuses is told without a word of grids and Refs."""
    with caught(Source(__file__, Path(__file__).read_bytes()), Stage.TRACE) as found:
        jax.jit(plain).trace(np.arange(1, 4))
    finding = check(evidence(Observation(problem=found.problem), kernel=False))
    assert finding
    assert words in " ".join(finding.message.split())
    assert "kernel" not in finding.message
    assert "cannot be traced by jit" in finding.message


def test_a_long_text_is_cut_to_its_first_paragraph() -> None:
    assert first_paragraph("ValueError: no") == "ValueError: no"
    assert first_paragraph("first\nline\n\nsecond") == "first\nline\n(the whole text: pytest -vv)"
