"""The rung that judges values: right, wrong and where, raised by the interpreter, or printed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from grader.checks.evidence import Evidence
from pallascope.checks.exceptions import complaint_finding, interpreter_finding
from pallascope.checks.values import check
from pallascope.kernels import TracedLaunch
from pallascope.model import (
    BROKEN_PROMISE,
    ArrayType,
    Check,
    Clues,
    Finding,
    FirstAccess,
    Lint,
    Mode,
    Observation,
    Operand,
    OutputBlocks,
    Problem,
    Repaired,
    Role,
    SourceLine,
    Stage,
)
from pallascope.runs.exception_reports import caught
from tests.pallascope.support.calls import array, call, doubling, operand, output, trace
from tests.support.factories import FILE, NOWHERE, X, attempt, evidence, reference, with_key

Y = 2 * X
RACE_010 = """RACE DETECTED
  write of ('hbm', 101, 0, 0)[(slice(0, 8, 1), slice(0, 128, 1))] from 0, 1, pallas_call
  clock: [ 0 12  0  0]"""
RACE_012 = """RACE DETECTED
  write of ('hbm', 101, 0, 0)[(slice(0, 8, 1), slice(0, 128, 1))] from (0, 1), pallas_call
  clock: <jax._src.pallas.mosaic.interpret.vector_clock.NpVectorClock object at 0x7f1b38>"""
SEMAPHORE = "Semaphore 2000 has non-zero count for 0 (global core 0) at kernel exit: 4"


def no_clues() -> Clues:
    pytest.fail("a right result needs no closer look")


def told(given: Evidence) -> str:
    return text(check(given))


def text(finding: Finding | None) -> str:
    assert finding is not None
    assert finding.check is Check.VALUES
    return f"{finding.phrase}\n{finding.message}"


# ---- values ----


def test_right_values_are_fine() -> None:
    assert check(evidence(attempt(), clues=no_clues)) is None
    assert check(evidence(attempt(traced=trace()), clues=no_clues)) is None


def test_a_wrong_result_is_told_from_the_whole_to_the_one_element() -> None:
    got = Y.copy()
    got[24:] += np.arange(8)[:, None] + 50.0
    said = told(evidence(attempt(got)))
    assert said.startswith("only the last block is wrong\n")
    assert "o_ref: block (3, 0) of its 4×1 blocks is wrong" in said
    assert "float32, 32×128, in blocks of 8×128" in said
    assert "# has wrong elements" in said
    assert "worst  element (31, " in said
    assert "in block (3, 0): got " in said
    assert "expected " in said
    assert "rounding explains at most" in " ".join(said.split())
    assert "  why " in said


def test_without_a_diagnosis_the_headline_is_the_phrase() -> None:
    noise = 100 * np.random.default_rng(1).standard_normal(X.shape)
    said = told(evidence(attempt(noise)))
    assert said.startswith("o_ref: all of its 4×1 blocks are wrong\n")
    assert "why" not in said


def test_rounding_is_what_the_key_allows() -> None:
    rounded = replace(attempt(), outputs=(array(Y * (1 + 3 * 2.0**-8), "bfloat16"),))
    assert check(evidence(rounded, roundings=2))
    assert check(evidence(rounded, roundings=5)) is None


def test_the_mode_reaches_the_tolerance() -> None:
    got = Y + 2.0**-9 * np.abs(Y).max()
    against = reference(contraction=128)
    assert check(evidence(attempt(got), against, mode=Mode.COMPILED)) is None
    assert check(evidence(attempt(got), against, mode=Mode.STRICT))


def test_clues_reach_the_diagnosis() -> None:
    nan = np.full_like(Y, np.nan)
    walk = OutputBlocks(((0,), (1,)), (((0, 0), (1, 0)),))
    said = told(evidence(attempt(nan), clues=lambda: Clues(output_blocks=walk)))
    assert said.startswith("blocks (2, 0) and (3, 0) never written\n")
    scratch = call(operand("x_ref", X.shape, (8, 128)), output(first=FirstAccess.READ))
    zeros = Clues(with_zeros=(array(Y + 1),))
    said = told(evidence(attempt(nan, trace(scratch)), clues=lambda: zeros))
    assert said.startswith("o_ref read before it was written\n")


def test_a_kernel_that_makes_no_steps_is_named() -> None:
    nothing = trace(call(*doubling().operands, grid=(0, 3)))
    assert "double makes no steps: its grid is (0, 3)" in told(
        evidence(attempt(np.nan * X, nothing))
    )


REPAIRED = Repaired("had <= instead of <", 12, (array(2 * X),))


@pytest.mark.parametrize(
    ("repaired", "named"),
    [
        (REPAIRED, True),
        (replace(REPAIRED, results=(array(2.001 * X),)), False),
        (Repaired(), False),
    ],
)
def test_a_change_that_makes_the_result_right_is_named(repaired: Repaired, named: bool) -> None:
    given = replace(evidence(attempt(noise())), repaired=lambda: repaired)
    phrase = "right, if line 12 had <= instead of <"
    assert told(given).startswith(phrase) is named
    assert "this has been tried" not in told(given) or named


def test_a_change_is_named_before_the_padding_that_shows_the_mistake() -> None:
    x = replace(operand("x_ref", (30, 128), (8, 128)), axes=(0,))
    nan = np.full_like(Y, np.nan)
    clues = Clues(with_zeros=(array(0 * Y),), padding=("x_ref",))
    given = evidence(attempt(nan, trace(call(x, output()))), clues=lambda: clues)
    assert told(given).startswith("padding of x_ref was used\n")
    said = told(replace(given, repaired=lambda: REPAIRED))
    assert said.startswith("right, if line 12 had <= instead of <\n")
    assert "As it is, padding of x_ref was used." in " ".join(said.split())


def test_the_text_of_a_known_mistake_is_named_before_a_change_is_tried() -> None:
    def untried() -> Repaired:
        raise AssertionError("a change was tried")

    given = replace(evidence(attempt(noise())), repaired=untried, resembles=lambda _: "adds")
    assert told(replace(given, is_mistake=lambda: True)).startswith("your kernel adds")
    assert told(replace(given, repaired=Repaired)).startswith("your kernel adds")
    assert told(replace(given, repaired=lambda: REPAIRED)).startswith("right, if line 12")


def test_a_change_is_tried_for_results_that_are_off_by_a_factor() -> None:
    given = evidence(attempt(0.3 * Y))
    assert told(given).startswith("off by the same factor: 0.3")
    said = told(replace(given, repaired=lambda: REPAIRED))
    assert said.startswith("off by the same factor: 0.3")
    assert "would be right if line 12 had <= instead of <" in " ".join(said.split())


@pytest.mark.parametrize(
    ("repaired", "named"),
    [(REPAIRED, True), (replace(REPAIRED, results=(array(3 * X),)), False), (Repaired(), False)],
)
def test_a_change_is_told_after_an_index_out_of_bounds(repaired: Repaired, named: bool) -> None:
    message = 'Out-of-bounds block index (4, 0) for input "x_ref" in iteration (4,) on device 0'
    problem = Problem(Stage.RUN, "IndexError", message, LINE)
    tried = replace(attempt(problem=problem), outputs=())
    said = told(replace(evidence(tried), repaired=lambda: repaired))
    assert said.startswith("x_ref: block index (4, 0) is out of bounds")
    assert ("would be right if line 12 had <=" in " ".join(said.split())) is named
    assert ("this has been tried" in said) is named


def test_a_change_is_told_after_a_false_promise() -> None:
    given = evidence(attempt(noise(), complaints=(f"{BROKEN_PROMISE}: 3 isn't.",)))
    assert told(given).startswith(f"{BROKEN_PROMISE}\n")
    assert told(replace(given, repaired=lambda: REPAIRED)).startswith("right, if line 12")


def noise() -> Any:
    return 100 * np.random.default_rng(7).standard_normal(X.shape)


def test_inputs_reach_the_diagnosis() -> None:
    assert told(evidence(attempt(X))).startswith("equals x, unchanged\n")


def test_a_result_that_is_no_kernels_output_has_no_blocks() -> None:
    """Where it was reshaped, say, the output's index map tells nothing."""
    traced = trace(doubling(), results=(ArrayType("float32", (4096,)),))
    walk = OutputBlocks(((0,),), (((0, 0),),))
    tried = attempt(np.full(4096, np.nan), traced)
    given = evidence(tried, reference((Y.ravel(),)), clues=lambda: Clues(output_blocks=walk))
    said = told(given)
    assert said.startswith("the result: 4096 of 4096 elements are wrong\n")
    assert "worst  element 0: got nan" in said


def test_of_two_results_the_wrong_one_is_named() -> None:
    types = (ArrayType("float32", (32, 128)), ArrayType("float32", (128,)))
    traced = trace(doubling(), results=types)
    tried = replace(attempt(traced=traced), outputs=(array(Y), array(X[0] + 5)))
    assert "result 1: 128 of 128 elements are wrong" in told(evidence(tried, reference((Y, X[0]))))


def test_a_result_that_no_kernel_stores_has_the_keys_name() -> None:
    traced = trace(doubling(), kernel_outputs=(None,))
    tried = attempt(np.full(X.shape, 7), traced)
    given = with_key(evidence(tried), results=("dx",))
    assert told(given).startswith("dx: 4096 of 4096 elements are wrong\n")


def test_a_result_has_the_name_of_the_output_that_it_holds() -> None:
    outputs = (operand(name, (32, 128), (8, 128), Role.OUTPUT) for name in ("a_ref", "b_ref"))
    traced = trace(call(operand("x_ref", (32, 128), (8, 128)), *outputs), kernel_outputs=((0, 1),))
    assert "b_ref: " in told(evidence(attempt(np.full(X.shape, 7), traced)))


# ---- parallel steps, whatever the values ----


def test_right_values_by_luck() -> None:
    """A sum over a parallel dimension: the interpreter's order happened to be right."""
    shared = call(operand("x_ref", X.shape, (8, 128)), output(axes=()), parallel=(0,))
    said = told(evidence(attempt(traced=trace(shared))))
    assert said.startswith("grid dimension 0 is not parallel: a race\n")
    assert "right only by luck" in said
    apart = call(operand("x_ref", X.shape, (8, 128)), output(axes=(0,)), parallel=(0,))
    assert check(evidence(attempt(traced=trace(apart)))) is None
    assert check(evidence(attempt(traced=trace(shared, apart))))


def test_parallel_steps_may_copy_into_one_output_in_hbm() -> None:
    by_hand = replace(output((32, 128), FirstAccess.NOTHING, axes=()), space="any")
    assert check(evidence(attempt(traced=trace(call(by_hand, parallel=(0,)))))) is None


# ---- what the interpreter prints ----


@pytest.mark.parametrize("race", [RACE_010, RACE_012])
def test_a_race_is_a_race_printed_or_raised(race: str) -> None:
    printed = told(evidence(attempt(complaints=(race,))))
    problem = Problem(Stage.RUN, "RuntimeError", race)
    for said in (printed, text(interpreter_finding(problem, FILE))):
        assert said.startswith("race between two cores\n")
        moved = "core 1 writes [0:8, 0:128] of an array in HBM, as a block is copied out"
        assert moved in " ".join(said.split())
        assert "mark the dimension arbitrary in dimension_semantics" in " ".join(said.split())


def test_a_semaphore_left_over() -> None:
    said = told(evidence(attempt(complaints=(SEMAPHORE,))))
    assert said.startswith("a semaphore is left non-zero\n")
    assert "at kernel exit: 4" in " ".join(said.split())
    assert "Every signal needs a wait" in said


def test_a_race_comes_before_a_semaphore() -> None:
    assert text(complaint_finding((SEMAPHORE, RACE_010))).startswith("race between two cores")


def test_a_complaint_comes_before_wrong_values_but_tells_of_them() -> None:
    said = told(evidence(attempt(3 * Y, complaints=(SEMAPHORE,))))
    assert said.startswith("a semaphore is left non-zero\n")
    assert "  also " in said
    assert "off by the same factor" in said


# ---- what the interpreter raises ----

LINE = SourceLine(9, "o_ref[...] = x_ref[pl.ds(8, 8)]")


def on(kind: str, message: str, traceback: str = "", place: SourceLine | None = LINE) -> str:
    problem = Problem(Stage.RUN, kind, message, place, traceback=traceback)
    assert check(evidence(Observation(problem=problem))) == interpreter_finding(problem, FILE)
    return text(interpreter_finding(problem, FILE))


@pytest.mark.parametrize(
    ("role", "name"), [("input", "x_ref"), ("output", "o_ref"), ("input", "refs[0]")]
)
def test_a_block_index_out_of_bounds(role: str, name: str) -> None:
    said = on(
        "IndexError",
        f'Out-of-bounds block index (4, 0) for {role} "{name}" in iteration (3,) on device 0 '
        "(core 0): reading [(slice(32, 40, 1), slice(0, 128, 1))] but input has shape (32, 128).",
        place=None,
    )
    assert said.startswith(f"{name}: block index (4, 0) is out of bounds\n")
    assert f"At grid step (3,) the index map of {role} {name} returns (4, 0)" in said
    assert "look at each term of the index map" in " ".join(said.split())


@pytest.mark.parametrize(
    ("index", "says"),
    [
        ("(16, 0)", "block i starts at element i × 8."),
        ("(4, 0)", "4 blocks, 0 to 3, along dimension 0. Compare the grid"),
        ("(-8, 0)", "4 blocks, 0 to 3, along dimension 0. Compare the grid"),
        ("(32, 0)", "Compare the grid"),  # element 32 isn't in the array either
        ("(0, 1)", "1 block, 0, along dimension 1. Compare the grid"),
        ("(4,)", "Compare the grid"),
    ],
)
def test_a_block_index_is_explained_by_its_number(index: str, says: str) -> None:
    message = f'Out-of-bounds block index {index} for input "x_ref" in iteration (2,)'
    problem = Problem(Stage.RUN, "IndexError", message)
    called = call(operand("x_ref", (32, 128), (8, 128)))
    said = text(interpreter_finding(problem, FILE, (called,)))
    assert says in said
    assert ("element indices" in said) is (index == "(16, 0)")


def test_an_index_of_an_element_is_not_compared_with_numbers_of_blocks() -> None:
    message = 'Out-of-bounds block index (27, 0) for input "x_ref" in iteration (2,)'
    x = replace(operand("x_ref", (32, 128), (8, 128)), element=True, kinds=("Element", "Blocked"))
    problem = Problem(Stage.RUN, "IndexError", message)
    said = " ".join(text(interpreter_finding(problem, FILE, (call(x),))).split())
    assert "returns the first element of a block (pl.Element)" in said
    assert "a block has 8 of the array's 32 elements" in said


def test_a_read_out_of_bounds() -> None:
    said = on(
        "IndexError",
        "Out-of-bounds read of (0 0 vmem 102): reading [(slice(8, 16, 1), slice(0, 128, 1))] but "
        "buffer has shape (8, 128).",
    )
    assert said.startswith("reads out of bounds\n")
    assert f"{FILE}:9" in said
    assert "o_ref[...] = x_ref[pl.ds(8, 8)]" in said
    assert "its indices start at 0" in said


@pytest.mark.parametrize(
    ("operands", "says"),
    [
        ([], "it reads [8:16, 3] of a Ref, which has the shape (8, 128)"),
        ([operand("x_ref", (32, 128), (8, 128)), operand("y_ref", (8,), (8,))], "of x_ref, which"),
        (
            [operand("x_ref", (32, 128), (8, 128)), operand("y_ref", (8, 128), (8, 128))],
            "of x_ref or y_ref, which have the shape (8, 128)",
        ),
    ],
)
def test_an_access_out_of_bounds_names_the_refs(operands: list[Operand], says: str) -> None:
    message = (
        "Out-of-bounds read of (0 0 hbm 102): reading [(slice(8, 16, 1), 3)] but buffer has shape "
        "(8, 128)."
    )
    problem = Problem(Stage.RUN, "IndexError", message)
    said = " ".join(text(interpreter_finding(problem, FILE, (call(*operands),))).split())
    assert says in said
    assert "hbm 102" not in said


@pytest.mark.parametrize("verb", ["swap", "masked swap", "write"])
def test_a_store_out_of_bounds(verb: str) -> None:
    said = on(
        "ValueError",
        f"Out-of-bounds {verb} of (0 0 vmem 103): swapping [(slice(8, 16, 1), slice(0, 128, 1))] "
        "but buffer has shape (8, 128) .",
    )
    assert said.startswith("stores out of bounds\n")


def test_a_store_past_the_end_of_a_buffer() -> None:
    said = on("AssertionError", "", "  File interpret_pallas_call.py in swap\nAssertionError")
    assert said.startswith("stores out of bounds\n")
    assert not on("AssertionError", "mine").startswith("stores")


def test_a_block_that_is_revisited() -> None:
    said = on(
        "RuntimeError",
        "Revisited block (slice(0, 8, 1), slice(0, 128, 1)) of output 0 in iteration (2, 1). The "
        "block was previously visited in iterations (0, 1) through (1, 0) .",
    )
    assert said.startswith("an output block is revisited\n")
    assert "At grid step (2, 1) output 0 comes back" in said
    assert "steps (0, 1) to (1, 0) had written" in " ".join(said.split())
    assert "sum over the" in " ".join(said.split())


@pytest.mark.parametrize(
    ("parallel", "follow"), [((0, 1), "mark the dimension arbitrary"), ((0,), "sum over the last")]
)
def test_a_block_that_is_revisited_since_steps_are_parallel(
    parallel: tuple[int, ...], follow: str
) -> None:
    message = (
        "Revisited block (slice(0, 8, 1), slice(0, 128, 1)) of output 0 in iteration (2, 3). The "
        "block was previously visited in iterations (2, 0) through (2, 1) ."
    )
    two = replace(
        call(output((32, 128), FirstAccess.WRITE, axes=(0,))), grid=(4, 4), parallel=parallel
    )
    finding = interpreter_finding(Problem(Stage.RUN, "RuntimeError", message), FILE, (two,))
    assert follow in " ".join(finding.message.split())


def test_a_ref_in_hbm_gets_the_advice_of_its_text() -> None:
    said = on(
        "ValueError",
        "get_p: Buffers with a memory space of HBM or ANY cannot be referenced directly. Instead, "
        "use `pltpu.sync_copy` or `pltpu.async_copy`.",
    )
    assert said.startswith("ValueError: get_p: Buffers")
    assert "A core can only compute on VMEM" in said


def test_what_is_unknown_is_told_in_its_own_words() -> None:
    said = on("ZeroDivisionError", "division by zero\nsecond line")
    assert said.startswith("ZeroDivisionError: division by zero\n")
    assert "The kernel raises an exception" in said
    assert "second line" in said
    assert "  try " not in said
    assert on("KeyError", "").startswith("KeyError: \n")


def test_what_was_raised_comes_before_what_was_printed() -> None:
    problem = Problem(Stage.RUN, "ZeroDivisionError", "division by zero")
    tried = attempt(3 * Y, problem=problem, complaints=(RACE_010,))
    assert told(evidence(tried, clues=no_clues)).startswith("ZeroDivisionError")


def test_bfloat16_results_are_read_as_such() -> None:
    exact = Y.astype(ml_dtypes.bfloat16)
    tried = replace(attempt(), outputs=(array(exact, "bfloat16"),))
    assert check(evidence(tried)) is None


# ---- integers ----


def test_few_integers_are_shown_whole_beside_those_wanted() -> None:
    """With the tables that they came from; a kata without a kernel has no blocks."""
    sizes = np.array([3, 0, 5], np.int32)
    against = replace(
        reference([np.array([0, 3, 3, 8])]),
        names=("group_sizes", "x"),
        inputs=(array(sizes, "int32"), array(X)),
    )
    got = Observation(trace=trace(outside=("cumsum",)), outputs=(array([0, 3, 3, 9], "int32"),))
    message = told(evidence(got, against, kernel=False))
    assert "result int32, 4\n" in message
    assert "got    [0 3 3 9]" in message
    assert "wanted [0 3 3 8]" in message
    assert "inputs group_sizes = [3 0 5]" in message
    assert "block" not in message
    assert "x =" not in message


def test_a_table_has_a_line_for_each_row() -> None:
    table = np.array([[1, 2], [3, 4]])
    against = replace(reference(), names=("table",), inputs=(array(table, "int32"),))
    assert "table = [[1 2]\n" in told(evidence(attempt(3 * X), against))


def test_many_integers_are_not_shown() -> None:
    many = np.arange(65)
    got = Observation(trace=trace(), outputs=(array(many + 1, "int32"),))
    message = told(evidence(got, reference([many])))
    assert "wanted" not in message


# ---- negative indices ----


def stores_the_last(x_ref: Any, o_ref: Any) -> None:
    o_ref[-1] = x_ref[0]


def stores_before(x_ref: Any, o_ref: Any) -> None:
    o_ref[pl.ds(pl.program_id(0) - 1, 1)] = x_ref[0:1]


def reads_before(x_ref: Any, o_ref: Any) -> None:
    o_ref[0:1] = x_ref[pl.ds(pl.program_id(0) - 1, 1)]


def reads_the_last(x_ref: Any, o_ref: Any) -> None:
    o_ref[0] = x_ref[pl.program_id(0) - 1]


def reads_well_before(x_ref: Any, o_ref: Any) -> None:
    o_ref[0:2] = x_ref[pl.ds(pl.program_id(0) - 4, 2)]


def copies_the_last(x_ref: Any, o_ref: Any) -> None:
    pltpu.sync_copy(x_ref.at[pl.ds(pl.program_id(0) - 1, 1)], o_ref.at[pl.ds(0, 1)])
    pltpu.sync_copy(x_ref.at[pl.program_id(0) - 1], o_ref.at[1])


def reads_past(x_ref: Any, o_ref: Any) -> None:
    o_ref[0:1] = x_ref[pl.ds(pl.program_id(0) + 8, 1)]


@pytest.mark.parametrize(
    ("kernel", "phrase", "negative"),
    [
        (stores_the_last, "stores out of bounds", True),
        (stores_before, "stores out of bounds", True),
        (reads_before, "reads out of bounds", True),
        (reads_the_last, "reads out of bounds", True),
        (reads_well_before, "reads out of bounds", True),
        (copies_the_last, "reads out of bounds", True),
        (reads_past, "reads out of bounds", False),
    ],
)
def test_an_index_before_the_start_is_not_called_past_the_end(
    kernel: Callable[..., None], phrase: str, negative: bool
) -> None:
    jax.config.update("jax_platforms", "cpu")
    x = np.ones((8, 128), np.float32)
    launch = pl.pallas_call(kernel, jax.ShapeDtypeStruct((8, 128), jnp.float32), grid=(1,))
    with caught(NOWHERE, Stage.RUN) as found:
        TracedLaunch.of(launch, [x], {}).run([x], Mode.STRICT)
    assert found.problem
    said = text(interpreter_finding(found.problem, FILE))
    assert said.startswith(phrase)
    assert ("before the start" in said) is negative
    assert "past the end" not in said


# ---- semaphores ----


@pytest.mark.parametrize("wrong", [2, -1, None])
@pytest.mark.parametrize("known", [True, False])
def test_a_semaphore_out_of_bounds(wrong: int | None, known: bool) -> None:
    """jax takes the nearest semaphore instead; with an index from the data, at run time."""
    jax.config.update("jax_platforms", "cpu")

    def kernel(step_ref: Any, x_ref: Any, o_ref: Any, sems: Any) -> None:
        number = wrong or 0 if known else step_ref[0]
        pltpu.async_copy(x_ref, o_ref, sems.at[0, number]).wait()

    x, step = np.ones((8, 128), np.float32), np.array([wrong or 0], np.int32)
    hbm = pl.BlockSpec(memory_space=pltpu.HBM)
    launch = pl.pallas_call(
        kernel,
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), hbm],
        out_specs=hbm,
        out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
        scratch_shapes=[pltpu.SemaphoreType.DMA((1, 2))],
    )
    with caught(NOWHERE, Stage.RUN) as found:
        TracedLaunch.of(launch, [step, x], {}).run([step, x], Mode.STRICT)
    assert bool(found.problem) is (wrong is not None)
    if found.problem:
        said = text(interpreter_finding(found.problem, FILE))
        assert said.startswith("a semaphore out of bounds\n")
        assert f"semaphore {wrong} of an array" in said


# ---- products that a TPU rounds ----


def test_right_values_that_a_tpu_would_round() -> None:
    """Only where the key asks for full precision, and nothing else is wrong."""
    rounded = replace(doubling(), lints=(Lint.ROUNDED_PRODUCT,))
    right = attempt(traced=trace(rounded))
    assert check(evidence(right)) is None
    said = told(evidence(right, full_precision=True))
    assert said.startswith("a product of float32 at the default precision\n")
    assert 'precision="highest"' in said
    precise = replace(doubling(), lints=(Lint.PRECISE_PRODUCT,))
    assert check(evidence(attempt(traced=trace(precise)), full_precision=True)) is None
