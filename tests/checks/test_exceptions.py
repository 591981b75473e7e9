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
from jax.experimental.pallas import tpu as pltpu

from pallascope.checks.exception_advice import exception_advice
from pallascope.checks.exceptions import check, first_paragraph
from pallascope.kernels import TracedLaunch, for_chip
from pallascope.kernels.prng_emulation import NotSeeded
from pallascope.model import (
    Accident,
    Check,
    Mode,
    Observation,
    Problem,
    SourceFile,
    SourceLine,
    Stage,
)
from pallascope.runs.exception_reports import MissingGradeCall, caught
from tests.support.factories import FILE, NOWHERE, attempt, evidence

LINE = SourceLine(12, "o_ref[...] = x_ref + 1")
PROBLEM = Problem(Stage.TRACE, "ValueError", "no such thing\nat all", LINE)


def problem(kind: str, message: str, line: str = "") -> Problem:
    return Problem(Stage.TRACE, kind, message, SourceLine(1, line) if line else None)


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
def test_an_accident_is_told_as_the_bench_saw_it(place: SourceLine | None) -> None:
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
        ("TooManyThreads", "128 threads are running", ["One thread traces a launch"]),
        ("MakesCode", "it compiles a text", ["without compile, exec, eval"]),
        (
            "NotSerializable",
            "a pl.debug_check, or another check",
            ["on a TPU only", "pl.debug_print"],
        ),
        ("NotSerializable", "the operation reshape", ["Build it from jax.numpy"]),
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


def keeps_a_sum_in_a_variable(x_ref: Any, o_ref: Any) -> None:
    total = jnp.zeros(128)

    @pl.loop(0, 8)
    def _(row: Any) -> None:
        nonlocal total
        total = total + x_ref[row]

    o_ref[0] = total


def changes_the_dtype_of_the_carry(x_ref: Any, o_ref: Any) -> None:
    def add(row: Any, total: Any) -> Any:
        return total + x_ref[row]

    o_ref[0] = jax.lax.fori_loop(0, 8, add, jnp.zeros(128, jnp.bfloat16))


def returns_no_carry(x_ref: Any, o_ref: Any) -> None:
    def copy(row: Any, total: Any) -> None:
        o_ref[row] = x_ref[row]

    jax.lax.fori_loop(0, 8, copy, jnp.zeros(128))


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
        (lambda: launched(keeps_a_sum_in_a_variable), "a Python variable can't carry it out"),
        (lambda: launched(changes_the_dtype_of_the_carry), "returns the next iteration's carry"),
        (lambda: launched(returns_no_carry), "Is a return missing?"),
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


def launching(kernel: Callable[..., Any] = copies, **changed: Any) -> Callable[[], Any]:
    """Traces a launch, with some of its arguments changed."""
    given = {"grid": (4,), "in_specs": [ROWS], "out_specs": ROWS, "out_shape": ARRAY} | changed

    def launch(x: Any) -> Any:
        return pl.pallas_call(kernel, **given)(x)

    return lambda: tracing(launch)


def tracing(launch: Callable[[Any], Any]) -> Any:
    return TracedLaunch.of(launch, [np.ones((32, 128), np.float32)], {}).trace()


def mapped(index_map: Callable[..., Any]) -> Callable[[], Any]:
    return launching(in_specs=[pl.BlockSpec((8, 128), index_map)])


NUMBERS = np.arange(128, dtype=np.float32)
OLD_SPEC: Any = (lambda i: (i, 0), (8, 128))
NEW: Any = pltpu
OLD: Any = pl
PALLAS: Any = pl


def uses_numbers(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...] * NUMBERS


def numpy_on_a_ref(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = np.exp(x_ref)


def numpy_on_a_value(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = np.exp(x_ref[...])


def counts_to_a_value(x_ref: Any, o_ref: Any) -> None:
    for _ in range(pl.program_id(0)):  # pyright: ignore[reportArgumentType]
        o_ref[...] = x_ref[...]


def counts_to_a_float(x_ref: Any, o_ref: Any) -> None:
    for _ in range(x_ref[0, 0]):
        o_ref[...] = x_ref[...]


def stores_in_the_call(x_ref: Any, o_ref: Any) -> None:
    pl.when(pl.program_id(0) == 0)(o_ref.__setitem__(..., x_ref[...]))


def enters_when(x_ref: Any, o_ref: Any) -> None:
    once: Any = pl.when(pl.program_id(0) == 0)
    with once:
        o_ref[...] = x_ref[...]


def hands_an_index_to_when(x_ref: Any, o_ref: Any) -> None:
    def store(step: Any) -> None:
        o_ref[...] = x_ref[...]

    pl.when(pl.program_id(0) == 0)(store)  # pyright: ignore[reportArgumentType]


def reads_backwards(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[::-1]


def loads_as_of_old(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = PALLAS.load(x_ref, (slice(None), slice(None)))


def stores_as_of_old(x_ref: Any, o_ref: Any) -> None:
    PALLAS.store(o_ref, (slice(None), slice(None)), x_ref[...])


def repeats_as_of_old(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = NEW.repeat(x_ref[:, 0:1], 128, 1)


def branching_map(i: Any) -> Any:
    if i > 0:
        return i - 1, 0
    return i, 0


def forgetful_map(i: Any) -> None:
    _ = (i, 0)


def without(argument: str) -> Callable[[], Any]:
    given = {"grid": (4,), "in_specs": [ROWS], "out_specs": ROWS, "out_shape": ARRAY}
    del given[argument]
    return lambda: tracing(lambda x: pl.pallas_call(copies, **given)(x))


def partitioned() -> None:
    mesh = jax.sharding.AbstractMesh((2,), ("d",))
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
    x = jax.ShapeDtypeStruct((32, 128), jnp.float32, sharding=rows)
    kernel = pl.pallas_call(copies, grid=(4,), in_specs=[ROWS], out_specs=ROWS, out_shape=ARRAY)
    jax.jit(kernel).trace(x).lower(lowering_platforms=("tpu",))


def both_grids() -> Any:
    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=0, grid=(4,), in_specs=[ROWS], out_specs=ROWS
    )
    return tracing(lambda x: pl.pallas_call(copies, grid=(4,), grid_spec=spec, out_shape=ARRAY)(x))


def reads_some_rows(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[pl.ds(0, pl.program_id(0) + 1)]


def bounded_without_a_size() -> Any:
    def kernel(x_hbm: Any, o_hbm: Any) -> None:
        block = pl.BlockSpec((pl.BoundedSlice(8), 128), lambda i: (8 * i, 0))
        pltpu.emit_pipeline(copies, grid=(4,), in_specs=[block], out_specs=[block])(x_hbm, o_hbm)

    any_memory = pl.BlockSpec(memory_space=pl.ANY)
    how = {"in_specs": [any_memory], "out_specs": any_memory, "out_shape": ARRAY}
    with for_chip("TPU v5 lite", 1):
        return tracing(lambda x: pl.pallas_call(kernel, **how)(x))


def uncalled() -> Any:
    return TracedLaunch.of(lambda x: pl.pallas_call(copies, ARRAY), [np.ones(8)], {}).trace()


@pytest.mark.parametrize(
    ("trace", "says"),
    [
        (launching(uses_numbers), "pass this one to the pallas_call as an input"),
        (launching(numpy_on_a_ref), "use jnp instead of np: NumPy cannot"),
        (launching(numpy_on_a_value), "Use jnp instead of np."),
        (launching(counts_to_a_value), "lax.fori_loop(0, n, body, init)"),
        (launching(counts_to_a_float), "lax.fori_loop(0, n, body, init)"),
        (launching(stores_in_the_call), "@pl.when(condition) def _():"),
        (launching(enters_when), "@pl.when(condition) def _():"),
        (launching(hands_an_index_to_when), "@pl.when(condition) def _():"),
        (launching(out_shape=(32, 128)), "jax.ShapeDtypeStruct(x.shape, x.dtype)"),
        (without("out_specs"), "look for its BlockSpec in in_specs or out_specs"),
        (without("in_specs"), "look for its BlockSpec in in_specs or out_specs"),
        (uncalled, "Call it with the arrays"),
        (mapped(branching_map), "@pl.when does not help here"),
        (mapped(lambda i: (max(i - 1, 0), 0)), "jnp.maximum(i - 1, 0)"),
        (mapped(lambda i: ([0, 2, 1, 3][i], 0)), "A table goes into scalar prefetch"),
        (mapped(forgetful_map), "or the word return?"),
        (mapped(lambda i: (i / 2, 0)), "divide with //"),
        (mapped(lambda i: i), "one block index for each"),
        (launching(reads_backwards), "cannot be read backwards"),
        (launching(reads_some_rows), "The size of a slice is known while tracing"),
        (bounded_without_a_size, "the index map returns pl.ds(start, size)"),
        (partitioned, "inside of jax.shard_map"),
        (lambda: NEW.TPUCompilerParams(dimension_semantics=()), "today it is pltpu.CompilerParams"),
        (lambda: NEW.TPUInterpretParams(), "today it is pltpu.InterpretParams"),
        (lambda: NEW.run_scoped(print), "pl.run_scoped(...)"),
        (lambda: OLD.BlockSpec((8, 128), indexing_mode=None), "pl.Element(size)"),
        (lambda: OLD.Unblocked(), "pl.Element(size)"),
        (lambda: NEW.TPUMemorySpace.ANY, "today write pltpu.VMEM"),
        (lambda: pl.BlockSpec(memory_space=NEW.ANY), "today it is pl.ANY"),
        (launching(loads_as_of_old), "today a Ref is indexed"),
        (launching(stores_as_of_old), "today a Ref is indexed"),
        (launching(repeats_as_of_old), "jnp.tile(x, (1, n))"),
        (launching(in_specs=[pl.BlockSpec(*OLD_SPEC)]), "takes the block shape first"),
        (both_grids, "pass them to it, not to pallas_call"),
    ],
)
def test_advice_on_what_was_bare(trace: Callable[[], Any], says: str) -> None:
    """Each raises the real exception, with a line of this file."""
    with caught(SourceFile(__file__, Path(__file__).read_bytes()), Stage.TRACE) as found:
        trace()
    assert found.problem
    said = " ".join(told(Observation(problem=found.problem)).split())
    assert says in said, found.problem.message


def running(count: Any, *semantics: Any) -> None:
    """Runs a launch whose grid is made by `count` from the array that it is given."""

    def launch(x: Any) -> Any:
        params = pltpu.CompilerParams(dimension_semantics=semantics)
        kernel = pl.pallas_call(
            copies, ARRAY, grid=count(x), in_specs=[ROWS], out_specs=ROWS, compiler_params=params
        )
        return kernel(x)

    x = np.full((32, 128), 4, np.float32)
    TracedLaunch.of(launch, [x], {}).run([x], Mode.STRICT)


@pytest.mark.parametrize(
    ("run", "says"),
    [
        (lambda: running(lambda _: (4,), "parallel", "arbitrary"), "one entry for each dimension"),
        (lambda: running(lambda _: (4,), "arbitrary", "arbitrary"), "one entry for each dimension"),
    ],
)
def test_advice_on_what_the_interpreter_cannot_run(run: Callable[[], None], says: str) -> None:
    with caught(NOWHERE, Stage.RUN) as found:
        run()
    assert found.problem
    assert says in exception_advice(found.problem), found.problem.message


@pytest.mark.parametrize("kind", ["arbitrary", "parallel"])
def test_a_dynamic_dimension_is_run(kind: str) -> None:
    running(lambda x: (x[0, 0].astype(int),), kind)


def test_advice_on_a_file_that_lost_its_test() -> None:
    for error in (
        MissingGradeCall("the file has lost its test: def test_double(hidden_case): …"),
        MissingGradeCall("test_double does not call hidden_case.grade(double)"),
    ):
        assert "last lines of the file" in exception_advice(problem("MissingGradeCall", str(error)))


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
    with caught(SourceFile(__file__, Path(__file__).read_bytes()), Stage.TRACE) as found:
        jax.jit(plain).trace(np.arange(1, 4))
    finding = check(evidence(Observation(problem=found.problem), kernel=False))
    assert finding
    assert words in " ".join(finding.message.split())
    assert "kernel" not in finding.message
    assert "cannot be traced by jit" in finding.message


def test_a_long_text_is_cut_to_its_first_paragraph() -> None:
    assert first_paragraph("ValueError: no") == "ValueError: no"
    assert first_paragraph("first\nline\n\nsecond") == "first\nline\n(the whole text: pytest -vv)"


def test_of_a_generator_that_nobody_has_seeded() -> None:
    assert "Call pltpu.prng_seed in every step" in exception_advice(
        problem("NotSeeded", str(NotSeeded()))
    )


def test_the_plain_interpreter_draws_no_bits() -> None:
    def draws(o_ref: Any) -> None:
        pltpu.prng_seed(1)
        o_ref[...] = pltpu.prng_random_bits((8, 128))

    launch = pl.pallas_call(draws, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.int32))
    with caught(NOWHERE, Stage.RUN) as found:
        TracedLaunch.of(launch, [], {}).run([], Mode.INTERPRET)
    assert found.problem
    assert "use --kata-mode strict" in exception_advice(found.problem)
