"""What Mosaic refuses is told with its line, its reason and a way round that Mosaic does lower."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl

from pallascope.checks.lowers import FORMULAS, WORKAROUNDS, lowering_finding, workaround_for
from pallascope.kernels import TracedLaunch
from pallascope.kernels.lowering import for_chip, lower
from pallascope.model import (
    ArrayType,
    Check,
    Operation,
    Problem,
    SourceLine,
    Stage,
)
from pallascope.runs.exception_reports import caught
from tests.pallascope.support import lowering_errors
from tests.pallascope.support.lowering_errors import F32, LongFloat, Pair
from tests.support.factories import read

PAIRS = list(lowering_errors.pairs())
GIVEN = [pair for pair in PAIRS if "says" in dir(pair)]
HERE = [pair for pair in GIVEN if jax.__version__.startswith(pair.only)]
V5E = ("TPU v5 lite", 1)

every = pytest.mark.parametrize("pair", HERE, ids=lambda pair: pair.__name__)


@pytest.fixture(autouse=True, scope="module")
def cpu() -> None:
    jax.config.update("jax_platforms", "cpu")


def lowered(function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    with for_chip(*V5E):
        kernels = TracedLaunch.of(function, args, {}).kernels(args)
        assert kernels
        for kernel in kernels:
            lower(kernel)


def problem_of(function: Callable[..., Any], args: tuple[Any, ...], file: str) -> Problem:
    with caught(read(Path(file)), Stage.LOWER) as found:
        lowered(function, args)
    assert found.problem is not None, "Mosaic lowers it"
    return found.problem


def refusal_of(pair: type[Pair]) -> Problem:
    wide = jax.enable_x64(True) if issubclass(pair, LongFloat) else contextlib.nullcontext()
    with wide:
        return problem_of(*pair.launch("refused"), lowering_errors.__file__)


def of_kernel(kernel: Callable[..., None], *inputs: Any) -> Problem:
    def launch(*arrays: Any) -> Any:
        return pl.pallas_call(kernel, out_shape=F32)(*arrays)  # the launch

    return problem_of(launch, inputs or (F32,), __file__)


def said(problem: Problem) -> str:
    finding = lowering_finding(problem, "katas/a.py")
    assert finding.check is Check.LOWERS
    return " ".join(f"{finding.phrase}\n{finding.message}".split())


def code(way: str) -> list[str]:
    return [line.strip() for line in way.splitlines() if line.startswith(" ")]


# ---- the table ----


@every
def test_a_refusal_is_told_with_operation_line_reason_and_way(pair: type[Pair]) -> None:
    problem = refusal_of(pair)
    assert (problem.operation.name if problem.operation else None) == pair.operation
    assert problem.place
    assert "# refused" in problem.place.text
    advice = workaround_for(problem)
    assert advice
    assert pair.says in f"{advice.why} {advice.remedy}"
    text = said(problem)
    for part in (advice.why, advice.remedy, problem.place.text, f"katas/a.py:{problem.place.line}"):
        assert " ".join(part.split()) in text
    assert "Please" not in text
    assert len(lowering_finding(problem, "").phrase) < 150


@every
def test_the_way_round_is_lowered(pair: type[Pair]) -> None:
    lowered(*pair.launch("instead"))


@every
def test_the_way_round_is_what_the_advice_says(pair: type[Pair]) -> None:
    advice = workaround_for(refusal_of(pair))
    assert advice
    source = inspect.getsource(pair.instead) + inspect.getsource(pair.launch)
    for line in code(advice.remedy) if pair.verbatim else []:
        assert line in source


#: What only a launch for several chips is told: tests/checks/test_device_messages.py.
FOR_SEVERAL_CHIPS = "cannot be automatically partitioned"


def test_every_piece_of_advice_is_held_to_it() -> None:
    """On one of the versions of jax, at least."""
    unused = [
        advice.remedy
        for advice in WORKAROUNDS
        if advice.text != FOR_SEVERAL_CHIPS
        and not any(
            pair.says in f"{advice.why} {advice.remedy}"
            and (pair.operation in advice.operations or not advice.operations)
            for pair in GIVEN
        )
    ]
    assert not unused


#: Operations that share advice with one in `refused`.
LIKEWISE: dict[str, Callable[[Any], Any]] = {
    "argmin": lambda x: jnp.argmin(x.astype(jnp.int32), axis=1, keepdims=True),
    "reduce_min": lambda x: jnp.min(x.astype(jnp.int8), axis=1, keepdims=True),
    "reduce_window_min": lambda x: lax.reduce_window(x, jnp.inf, lax.min, (2, 1), (2, 1), "VALID"),
    "reduce_window_sum": lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 1), (2, 1), "VALID"),
    "digamma": lax.digamma,
    "bessel_i0e": lax.bessel_i0e,
    "bessel_i1e": lax.bessel_i1e,
    "igamma": lambda x: lax.igamma(x, x),
    "igammac": lambda x: lax.igammac(x, x),
    "zeta": lambda x: lax.zeta(x, x),
    "custom_linear_solve": lambda x: lax.custom_linear_solve(lambda y: y, x, lambda _, y: y),
    "scatter-mul": lambda x: x.at[3].multiply(2.0),
    "scatter-min": lambda x: x.at[3].min(2.0),
}


@pytest.mark.parametrize("name", LIKEWISE)
def test_others_share_advice(name: str) -> None:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        result = LIKEWISE[name](x_ref[...])
        o_ref[...] = jnp.full(o_ref.shape, jnp.sum(result.astype(jnp.float32)))

    problem = of_kernel(kernel)
    assert problem.operation
    assert problem.operation.name == name
    advice = workaround_for(problem)
    assert advice
    assert name in advice.operations


def test_every_operation_that_is_named_is_tried() -> None:
    named = {name for advice in WORKAROUNDS for name in advice.operations}
    assert named == named & {*LIKEWISE, *(pair.operation for pair in GIVEN)}


# ---- functions without an instruction ----

FUNCTIONS = {
    "erfc": (lax.erfc, -2, 2),
    "expm1": (jnp.expm1, -3, 3),
    "sinh": (jnp.sinh, -3, 3),
    "cosh": (jnp.cosh, -3, 3),
    "asin": (jnp.arcsin, -0.99, 0.99),
    "acos": (jnp.arccos, -0.99, 0.99),
    "atan": (jnp.arctan, -3, 3),
    "asinh": (jnp.arcsinh, -3, 3),
    "acosh": (jnp.arccosh, 1.01, 3),
    "atanh": (jnp.arctanh, -0.9, 0.9),
    "cbrt": (jnp.cbrt, -3, 3),
    "reduce_precision": (lambda x: lax.reduce_precision(x, 8, 7), -3, 3),
}


def formula(name: str) -> Callable[[Any], Any]:
    return lambda x: eval(FORMULAS[name], {"x": x, "jnp": jnp, "lax": lax})


@pytest.mark.parametrize("name", FORMULAS)
def test_a_function_is_written_with_others(name: str) -> None:
    function, low, high = FUNCTIONS[name]
    x = np.linspace(low, high, 2048, dtype=np.float32).reshape(16, 128)
    np.testing.assert_allclose(formula(name)(x), function(x), rtol=2e-5, atol=2e-6)
    if function(np.float32(0)) == 0 and name != "reduce_precision":  # there every digit counts
        tiny = np.geomspace(1e-6, 0.4, 256, dtype=np.float32)
        for small in (tiny, -tiny):
            np.testing.assert_allclose(formula(name)(small), function(small), rtol=2e-5)

    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = formula(name)(x_ref[...])

    lowered(pl.pallas_call(kernel, F32), (F32,))


@pytest.mark.parametrize("name", FORMULAS)
def test_a_function_without_an_instruction_is_refused(name: str) -> None:
    if name == "reduce_precision" and not jax.__version__.startswith("0.10"):
        pytest.skip("this version lowers it")

    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = FUNCTIONS[name][0](x_ref[...])

    problem = of_kernel(kernel)
    assert problem.operation == Operation(name, (ArrayType("float32", (16, 128)),), mine(name))
    assert f"no instruction for {name}" in said(problem)
    assert FORMULAS[name] in said(problem)


def mine(name: str) -> str:
    return "arccosh" if name == "acosh" else ""


# ---- where and what, beyond the table ----


def test_a_refusal_without_advice_still_names_operation_and_line() -> None:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        x = x_ref[...]
        o_ref[...] = lax.betainc(x, x, x)  # here

    problem = of_kernel(kernel)
    text = said(problem)
    assert "no lowering for regularized_incomplete_beta of float32[16, 128]" in text
    assert "lax.betainc(x, x, x) # here" in text
    assert "Build it from a TPU's operations" in text
    assert "pytest -vv" in text


def test_the_line_is_found_inside_loops_branches_and_functions() -> None:
    @jax.jit
    def helper(x: Any) -> Any:
        return x + jnp.flip(x, 0)  # here

    def kernel(x_ref: Any, o_ref: Any) -> None:
        @pl.when(x_ref[0, 0] > 0)
        def _() -> None:
            def body(_: Any, x: Any) -> Any:
                return helper(x)

            o_ref[...] = lax.fori_loop(0, 4, body, x_ref[...])

    problem = of_kernel(kernel)
    assert problem.place
    assert problem.place.text.endswith("# here")


def test_the_line_is_that_of_the_call_that_is_refused() -> None:
    """Both calls share one traced function, in jax's cache."""

    def kernel(x_ref: Any, o_ref: Any) -> None:
        first = jnp.sort(x_ref[...], axis=1)  # here
        o_ref[...] = first + jnp.sort(x_ref[...], axis=1)

    def another(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = jnp.sort(x_ref[...], axis=1)  # there

    places = [of_kernel(one).place for one in (kernel, another)]
    assert [place and place.text[-6:] for place in places] == ["# here", " there"]


def test_the_line_of_a_rejected_operation_inside_a_function_of_jax() -> None:
    """The verifier of MLIR speaks when all is lowered: only its location leads back."""

    def kernel(x_ref: Any, o_ref: Any) -> None:
        columns = lax.broadcasted_iota(jnp.int32, x_ref.shape, 1)
        scale = jnp.linspace(0, 1, 128)  # here
        o_ref[...] = x_ref[...] * scale + columns.astype(jnp.float32)

    problem = of_kernel(kernel)
    assert problem.operation == Operation("iota", (), "linspace")
    assert problem.place
    assert problem.place.text.endswith("# here")
    assert "'tpu.iota' op result #0 must be vector" in said(problem)
    assert "see current operation" not in said(problem)
    assert "internal verification error" not in said(problem)


def test_a_function_of_jax_that_hides_the_operation_is_named() -> None:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] - jnp.median(x_ref[...], axis=1, keepdims=True)

    problem = of_kernel(kernel)
    assert problem.operation == Operation("sort", (ArrayType("float32", (16, 128)),), "median")
    finding = lowering_finding(problem, "")
    assert finding.phrase == "Mosaic cannot lower sort (in median)"
    assert "sort of float32[16, 128], a part of median" in finding.message


def test_a_function_of_the_learner_s_own_is_not_named() -> None:
    @jax.jit
    def helper(x: Any) -> Any:
        return x - jnp.median(x, axis=1, keepdims=True)

    def through_helper(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = helper(x_ref[...])

    def directly(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = jnp.sort(x_ref[...], axis=1)

    operations = [of_kernel(kernel).operation for kernel in (through_helper, directly)]
    assert [one and one.within for one in operations] == ["median", ""]


def test_scalars_beside_arrays_are_left_out() -> None:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = lax.dynamic_slice(
            x_ref[...], (o_ref.shape[0] - x_ref[0, 0].astype(int), 0), (16, 128)
        )

    assert "dynamic_slice of float32[16, 128]. (the whole" in said(of_kernel(kernel))


def test_the_exact_gelu_is_given_in_full() -> None:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = jax.nn.gelu(x_ref[...], approximate=False)

    def instead(x_ref: Any, o_ref: Any) -> None:
        x = x_ref[...]
        o_ref[...] = x / 2 * (1 + lax.erf(x / jnp.sqrt(2.0)))

    assert "x / 2 * (1 + lax.erf(x / jnp.sqrt(2.0)))" in said(of_kernel(kernel))
    lowered(pl.pallas_call(instead, F32), (F32,))


def test_what_the_operation_lacks_comes_before_what_its_dtype_lacks() -> None:
    def sorts(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = jnp.sort(x_ref[...], axis=1).astype(jnp.float32)

    def unknown(x_ref: Any, o_ref: Any) -> None:
        x = x_ref[...]
        o_ref[...] = lax.betainc(x, x, x).astype(jnp.float32)

    assert "No instruction sorts" in said(of_kernel(sorts, lowering_errors.F16))
    assert "has no float16" in said(of_kernel(unknown, lowering_errors.F16))
    assert "has no float16" not in said(of_kernel(unknown, lowering_errors.BF16))


def test_a_refused_launch_is_placed_at_its_call() -> None:
    def kernel(x_ref: Any, s_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] * s_ref[...]

    problem = of_kernel(kernel, F32, jax.ShapeDtypeStruct((), jnp.float32))
    assert problem.operation is None
    assert problem.place
    assert problem.place.text.endswith("# the launch")
    assert lowering_finding(problem, "").phrase == "Mosaic refuses the launch"
    assert "only blocks of rank >= 1" in said(problem)


def test_mosaic_s_own_text_is_kept_whole_for_those_who_ask() -> None:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = lax.erfc(x_ref[...])  # here

    full = lowering_finding(of_kernel(kernel), "").full
    assert "Please file an issue at https://github.com/jax-ml/jax/issues" in full
    assert "pallas/mosaic/lowering.py" in full
    assert "# here" in full


def test_an_empty_assertion_is_told_as_such() -> None:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = jnp.full(o_ref.shape, jnp.tensordot(x_ref[...], x_ref[...], 2))

    text = said(of_kernel(kernel))
    assert "in lowering dot of float32[16, 128] and float32[16, 128]:" in text
    assert "AssertionError (without a message)" in text


def test_an_mlir_error_is_told_without_its_locations() -> None:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = lax.associative_scan(jnp.add, x_ref[...], axis=0)

    text = said(of_kernel(kernel))
    assert "MLIRError: Invalid type: vector types must have positive constant sizes" in text
    assert "test_lowers.py" not in text.replace("katas/a.py", "")


def test_what_fails_while_tracing_is_told_so() -> None:
    line = SourceLine(3, "o_ref[...] = f(x_ref[...])")
    problem = Problem(Stage.LOWER, "TypeError", "no\nway", line)
    finding = lowering_finding(problem, "katas/a.py")
    assert finding.phrase == "the launch cannot be traced for a TPU"
    assert "TypeError: no\n" in finding.message
    assert "katas/a.py:3" in finding.message
    assert "try" not in finding.message
    assert (
        lowering_finding(replace(problem, place=None), "katas/a.py").message.count("katas/a.py")
        == 0
    )
