"""Each known pattern of a wrong result is recognised, and is not seen where it is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pallascope.checks.compare import Comparison, Index, Sum, tolerance
from pallascope.checks.diagnoses import (
    DIAGNOSES,
    Diagnosis,
    Suspect,
    diagnose,
    headline,
    map_of_blocks,
)
from pallascope.checks.diagnoses.position_patterns import (
    another_block,
    another_result,
    left_over,
    never_used,
    one_share_of_the_sum,
    only_some_rows,
    only_the_first,
    only_the_last,
    rows_reordered,
    transposed,
)
from pallascope.checks.diagnoses.uninitialized import (
    computed_nan,
    nan_of_an_input,
    nan_of_some_kind,
    never_awaited,
    never_stored,
    never_visited,
    not_aliased,
    overflowed,
    padding_likely,
    padding_used,
    read_before_written,
    shared_by_parallel_steps,
)
from pallascope.checks.diagnoses.value_patterns import (
    all_zero,
    another_formula,
    changed_spec,
    edge_of_an_operation,
    factor_of_the_row,
    input_unchanged,
    mask_within_reach,
    rounded_too_early,
    rows_of_nothing,
    same_amount,
    same_factor,
)
from pallascope.model import (
    FirstAccess,
    Hypothesis,
    Lint,
    Operand,
    OutputBlocks,
    Role,
    Roundings,
    Share,
)
from tests.pallascope.support.calls import array, call, operand, output
from tests.support.factories import X

Values = np.ndarray[Any, Any]
NOISE = 100 * np.random.default_rng(7).standard_normal(X.shape)
ROWS = (8, 128)  # four blocks of X
LAST = (slice(24, 32), slice(None))

# ---- how a suspect is made ----


def suspect(
    actual: Values,
    expected: Values = X,
    block: Index = ROWS,
    dtype: str = "float32",
    **others: Any,
) -> Suspect:
    allowed = tolerance(expected, dtype, Roundings(), Sum())
    return Suspect(Comparison("o_ref", dtype, actual, expected, allowed, block), **others)


def result(name: str, actual: Values, expected: Values) -> Comparison:
    allowed = tolerance(expected, "float32", Roundings(), Sum())
    return Comparison(name, "float32", actual, expected, allowed, expected.shape)


def with_part(part: Any, value: Any, base: Values = X) -> Values:
    changed = base.copy()
    changed[part] = value
    return changed


def bfloat16(values: Values) -> Values:
    return values.astype(ml_dtypes.bfloat16).astype(np.float64)


def walk(*blocks: Index) -> OutputBlocks:
    """One output over a grid of one dimension."""
    return OutputBlocks(tuple((i,) for i in range(len(blocks))), (blocks,))


def kernel(*operands: Operand, **others: Any) -> dict[str, Any]:
    return {"call": call(*operands, **others), "output": 0}


def scratch(first: FirstAccess) -> Operand:
    return operand("acc_ref", ROWS, role=Role.SCRATCH, first=first)


EVERY_ROW = walk((0, 0), (1, 0), (2, 0), (3, 0))
RAGGED = operand("x_ref", (30, 128), ROWS)
SQUARES = np.random.default_rng(1).standard_normal((16, 16))


def swapped_rows() -> Values:
    return np.concatenate([X[8:16], X[:8], X[16:]])


def blockwise_transposed() -> Values:
    tiles = SQUARES.reshape(2, 8, 2, 8)
    return tiles.transpose(0, 3, 2, 1).reshape(16, 16)


def never_cleared() -> Values:
    """Each block holds its own sum plus that of all before."""
    return X.reshape(4, 8, 128).cumsum(0).reshape(X.shape)


def share_of(which: str, value: Values) -> tuple[Share, Values]:
    return Share("x_ref", 1, which, (array(value),)), value


#: By function: a suspect that shows its pattern and no earlier one, and what the phrase says.
SHOWN: dict[Callable[[Suspect], Diagnosis | None], tuple[Suspect, str]] = {
    shared_by_parallel_steps: (
        suspect(NOISE, **kernel(output(axes=()), parallel=(0,))),
        "grid dimension 0 is not parallel",
    ),
    never_visited: (
        suspect(
            with_part(LAST, np.nan), output_blocks=walk((0, 0), (1, 0), (2, 0)), **kernel(output())
        ),
        "block (3, 0) never written",
    ),
    not_aliased: (
        suspect(
            with_part(LAST, np.nan),
            with_zeros=with_part(LAST, 0.0),
            inputs={"cache": with_part((slice(0, 8), slice(None)), 7.0)},
            **kernel(output()),
        ),
        "o_ref does not keep the values of cache",
    ),
    never_stored: (
        suspect(
            with_part(LAST, np.nan),
            output_blocks=EVERY_ROW,
            with_zeros=with_part(LAST, 0.0),
            **kernel(output()),
        ),
        "block (3, 0) never written",
    ),
    read_before_written: (
        suspect(
            np.full_like(X, np.nan), with_zeros=X, **kernel(output(), scratch(FirstAccess.READ))
        ),
        "acc_ref read before it was written",
    ),
    never_awaited: (
        suspect(
            np.full_like(X, np.nan),
            with_zeros=np.zeros_like(X),
            **kernel(output(), replace(scratch(FirstAccess.GUARDED_WRITE), unawaited=True)),
        ),
        "a copy of acc_ref is never waited for",
    ),
    padding_used: (
        suspect(
            np.full_like(X, np.nan),
            with_zeros=np.zeros_like(X),
            padding=("y_ref",),
            **kernel(RAGGED, replace(RAGGED, name="y_ref"), output()),
        ),
        "padding of y_ref was used",
    ),
    padding_likely: (
        suspect(np.full_like(X, np.nan), with_zeros=X, **kernel(RAGGED, output())),
        "padding of x_ref was used",
    ),
    nan_of_an_input: (
        suspect(
            with_part(LAST, np.nan),
            with_zeros=with_part(LAST, np.nan),
            inputs={"x": X, "y": with_part(LAST, np.inf)},
        ),
        "NaN that comes from y",
    ),
    nan_of_some_kind: (
        suspect(with_part(LAST, np.nan), strict=False),
        "NaN where numbers belong",
    ),
    another_result: (
        suspect(X[::-1] * 3, block=X.shape, others=(result("result 1", X, X[::-1] * 3),)),
        "o_ref contains the values of result 1",
    ),
    never_used: (
        suspect(NOISE, unused=("y",), **kernel(output())),
        "y is never used by the launch",
    ),
    rows_of_nothing: (
        suspect(with_part((0, 3), 1.5), with_part((0, 3), 1.5) * (X[:, :1] != X[0, 0])),
        "rows to which nothing contributes are not zero",
    ),
    computed_nan: (
        suspect(with_part(LAST, np.nan), with_zeros=with_part(LAST, np.nan)),
        "NaN from arithmetic",
    ),
    edge_of_an_operation: (
        suspect(with_part(LAST, 7.0), as_xla=X, edge="shift_left: 0. On a TPU: poison."),
        "right on the CPU only: shift_left",
    ),
    overflowed: (suspect(with_part((0, 0), np.inf)), "overflow to inf"),
    all_zero: (suspect(with_part(LAST, 0.0)), "zeros where values belong"),
    input_unchanged: (suspect(X, X + 10, inputs={"y": NOISE, "x": X}), "equals x, unchanged"),
    same_amount: (suspect(X - 2.5), "off by the same amount: -2.5"),
    same_factor: (suspect(X / 8), "off by the same factor: 0.125"),
    another_block: (
        suspect(swapped_rows()),
        "block (0, 0) contains the values of block (1, 0)",
    ),
    one_share_of_the_sum: (
        suspect(NOISE, block=X.shape, shares=(share_of("last", X), share_of("first", NOISE))),
        "only the first block of x_ref counts",
    ),
    left_over: (
        suspect(never_cleared()),
        "block (1, 0) still holds the sum of block (0, 0)",
    ),
    transposed: (suspect(blockwise_transposed(), SQUARES, (8, 8)), "blocks are transposed"),
    rows_reordered: (suspect(X[::-1], block=X.shape), "rows are in another order"),
    factor_of_the_row: (
        suspect(X * np.linspace(0.5, 3, 32)[:, None]),
        "each row is off by its own factor",
    ),
    another_formula: (
        suspect(X + 0.01 * np.sin(X)),
        "another formula",
    ),
    only_some_rows: (
        suspect(with_part((slice(3, 30, 9), slice(0, 100)), NOISE[3:30:9, :100])),
        "only 3 of 32 rows are wrong",
    ),
    mask_within_reach: (
        suspect(with_part(3, 0.5), **kernel(output(), lints=(Lint.NEAR_MASK,))),
        "a mask value within reach of the scores?",
    ),
    rounded_too_early: (suspect(bfloat16(X)), "rounded too early"),
    only_the_last: (
        suspect(with_part(LAST, NOISE[LAST])),
        "only the last block is wrong",
    ),
    only_the_first: (
        suspect(with_part(np.s_[8:], NOISE[8:])),
        "only the first block is right",
    ),
}

each = pytest.mark.parametrize("pattern", SHOWN, ids=lambda pattern: pattern.__name__)


@each
def test_pattern_is_recognised(pattern: Callable[[Suspect], Diagnosis | None]) -> None:
    shown, phrase = SHOWN[pattern]
    found = pattern(shown)
    assert found is not None
    assert phrase in found.phrase
    assert found.why.endswith(".")
    assert diagnose(shown) == found


@each
def test_pattern_is_not_seen_in_noise(pattern: Callable[[Suspect], Diagnosis | None]) -> None:
    x_ref = operand("x_ref", X.shape, ROWS, first=FirstAccess.READ)
    kernel_of = kernel(x_ref, output(), scratch(FirstAccess.WRITE))
    noise = suspect(
        NOISE,
        output_blocks=EVERY_ROW,
        with_zeros=NOISE,
        inputs={"x": X},
        shares=(share_of("first", X / 2),),
        **kernel_of,
    )
    assert pattern(noise) is None


def test_every_pattern_is_asked_for_and_shown() -> None:
    assert set(DIAGNOSES) == set(SHOWN)
    assert len(DIAGNOSES) == len(SHOWN)


def test_noise_has_no_diagnosis() -> None:
    assert diagnose(suspect(NOISE)) is None


def why(pattern: Callable[[Suspect], Diagnosis | None], shown: Suspect) -> str:
    found = pattern(shown)
    assert found is not None
    return f"{found.phrase}\n{found.why}"


# ---- the grid ----


def test_parallel_steps_with_blocks_of_their_own_are_fine() -> None:
    rows = output(axes=(0,))
    assert shared_by_parallel_steps(suspect(NOISE, **kernel(rows, parallel=(0,)))) is None
    assert shared_by_parallel_steps(suspect(NOISE, **kernel(rows, grid=(4, 2)))) is None
    one_step = kernel(rows, grid=(4, 1), parallel=(0, 1))
    assert shared_by_parallel_steps(suspect(NOISE, **one_step)) is None
    assert shared_by_parallel_steps(suspect(NOISE)) is None


def test_the_dimension_and_the_output_that_parallel_steps_share() -> None:
    other = operand("sum_ref", (32, 128), ROWS, Role.OUTPUT, axes=(0,))
    shared = kernel(output(axes=(0, 1)), other, grid=(4, 2), parallel=(0, 1))
    said = why(shared_by_parallel_steps, suspect(NOISE, **shared))
    assert "grid dimension 1 is not parallel" in said
    assert "blocks of sum_ref" in said
    assert "a race" in said
    assert "Mark that dimension arbitrary" in said


def test_blocks_that_no_step_leads_to_are_counted() -> None:
    shown = suspect(np.full_like(X, np.nan), output_blocks=walk((0, 0), (1, 0)), output=0)
    said = why(never_visited, shown)
    assert "blocks (2, 0) and (3, 0) never written" in said
    assert "The grid has 2 steps, the result 4 blocks" in said
    assert never_visited(replace(shown, output_blocks=EVERY_ROW)) is None
    assert never_visited(replace(shown, output_blocks=None)) is None


def test_a_right_block_may_be_left_alone() -> None:
    """It holds what an aliased input held, so that is no reason why another is wrong."""
    shown = suspect(with_part(LAST, 7.0), output_blocks=walk((1, 0), (2, 0), (3, 0)), output=0)
    assert never_visited(shown) is None


def test_a_block_of_a_vector_is_a_plain_number() -> None:
    shown = suspect(
        np.full(32, np.nan), np.ones(32), (8,), output_blocks=walk((0,), (1,), (2,)), output=0
    )
    assert "block 3 never written" in why(never_visited, shown)


def test_an_input_that_an_output_takes_the_place_of_need_not_be_read() -> None:
    unread = operand("old_ref", (32, 128), ROWS)
    shown = suspect(NOISE, **kernel(unread, output()))
    assert why(never_used, shown).startswith("old_ref is never read by the kernel")
    in_place = replace(unread, aliased=True)
    assert never_used(suspect(NOISE, **kernel(in_place, output()))) is None


# ---- NaN ----


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (FirstAccess.NOTHING, "The kernel's body never stores to o_ref"),
        (FirstAccess.NOTHING, "o_ref = value only gives a name to a value"),
        (FirstAccess.GUARDED_WRITE, "under a condition that is false"),
        (FirstAccess.WRITE, "The kernel stores nothing there"),
    ],
)
def test_why_nothing_was_stored(first: FirstAccess, reason: str) -> None:
    shown = suspect(
        with_part(LAST, np.nan), with_zeros=with_part(LAST, 0.0), **kernel(output(first=first))
    )
    assert reason in why(never_stored, shown)


def test_what_stays_in_hbm_is_written_by_copies() -> None:
    in_hbm = operand(
        "o_ref", (32, 128), role=Role.OUTPUT, first=FirstAccess.GUARDED_WRITE, space="any"
    )
    shown = suspect(
        with_part(LAST, np.nan), with_zeros=with_part(LAST, 0.0), **kernel(in_hbm, output())
    )
    assert "only copies write to it, from the kernel or a pipeline" in why(never_stored, shown)


def test_a_result_of_one_block_is_told_as_a_whole() -> None:
    nothing = np.full(X.shape, np.nan)
    shown = suspect(nothing, block=X.shape, with_zeros=np.zeros(X.shape))
    assert why(never_stored, shown).startswith("o_ref never written\no_ref was never written. ")


def test_elements_that_were_not_stored_are_told_in_indices_of_the_array() -> None:
    part = (slice(26, 28), slice(64, 128))
    shown = suspect(with_part(part, np.nan), with_zeros=with_part(part, 0.0))
    assert "In o_ref, elements [26:28, 64:128] were never written" in why(never_stored, shown)


@pytest.mark.parametrize(
    ("part", "says"),
    [
        (np.s_[[3, 9, 20], :], "rows 3, 9 and 20 were never written"),
        (np.s_[5, :], "elements [5:6, 0:128] were never written"),
        (np.s_[10:30, 3:5], "elements [10:30, 3:5] were never written"),
        (np.s_[:, 3::32], "columns 3, 35, 67 and 99 were never written"),
        (np.s_[::2, 3::40], "16 of the elements [0:7, 3:124] and others were never written"),
        (np.s_[26:28, ::127], "4 of the elements [26:28, 0:128] were never written"),
    ],
)
def test_elements_that_were_not_stored_are_not_told_as_a_box_that_holds_others(
    part: Any, says: str
) -> None:
    shown = suspect(with_part(part, np.nan), with_zeros=with_part(part, 0.0))
    assert f"In o_ref, {says}" in why(never_stored, shown)


def test_operations_around_a_kernel_may_take_what_it_does_not_store() -> None:
    nan, zeros = with_part(LAST, np.nan), with_part(LAST, 0.0)
    around = "Or the operations around it take other elements than it stores."
    other = replace(output(), name="sums_ref")
    assert around in why(never_stored, suspect(nan, with_zeros=zeros, **kernel(other)))
    assert around not in why(never_stored, suspect(nan, with_zeros=zeros, **kernel(output())))


def test_zeros_that_nothing_stores_are_told_if_other_contents_show() -> None:
    nan, zeros = with_part(LAST, np.nan), with_part(LAST, 0.0)
    guarded = replace(output(), first=FirstAccess.GUARDED_WRITE)
    shown = suspect(nan, zeros, with_zeros=zeros, **kernel(guarded))
    assert never_stored(shown) is None
    said = why(never_stored, replace(shown, unwritten=("o_ref",)))
    assert "The store to o_ref is under a condition that is false" in said


def test_the_buffer_is_named_whose_contents_change_the_results() -> None:
    one, other = (replace(scratch(FirstAccess.GUARDED_WRITE), name=f"{n}_ref") for n in "ab")
    nan = np.full_like(X, np.nan)
    shown = suspect(nan, with_zeros=X, **kernel(output(), one, other))
    assert why(read_before_written, shown).startswith("a_ref read before it was written")
    shown = replace(shown, unwritten=("b_ref",))
    assert why(read_before_written, shown).startswith("b_ref read before it was written")


def test_a_condition_is_not_blamed_for_a_part_of_a_block() -> None:
    part, stored = np.s_[1:3, :20], output(first=FirstAccess.GUARDED_WRITE)
    shown = suspect(with_part(part, np.nan), with_zeros=with_part(part, 0.0), **kernel(stored))
    assert "reach other elements of these blocks" in why(never_stored, shown)
    assert "condition" not in why(never_stored, shown)


def test_blocks_that_are_wrong_without_padding_are_told_too() -> None:
    wrong = with_part(LAST, np.nan, with_part(np.s_[:8], 7.0))
    shown = suspect(wrong, with_zeros=X, padding=("x_ref",), **kernel(RAGGED, output()))
    said = why(padding_used, shown)
    assert said.startswith("wrong without padding, and padding of x_ref was used")
    assert said.endswith("But block (0, 0) of o_ref is wrong without it: correct that first.")


def test_a_dimension_that_an_index_map_lacks_is_not_to_be_marked_arbitrary() -> None:
    writes = replace(output(), axes=())
    shown = suspect(X, output_blocks=walk((0, 0)), **kernel(writes, parallel=(0,)))
    said = why(shared_by_parallel_steps, shown)
    assert "let the index map return another block for each of these steps" in said
    whole = replace(shown, output_blocks=EVERY_ROW)
    assert "Mark that dimension arbitrary" in why(shared_by_parallel_steps, whole)


def test_lines_that_make_nan_are_named_if_all_are_known() -> None:
    nan = with_part(LAST, np.nan)
    shown = suspect(nan, with_zeros=nan, nonfinite_by=(("div", 12),))
    assert why(computed_nan, shown).startswith("NaN from arithmetic in line 12\n")
    assert "memory before: 0/0 or inf/inf." in why(computed_nan, shown)
    several = replace(shown, nonfinite_by=(("sub", 7), ("div", 12), ("log", 12)))
    said = why(computed_nan, several)
    assert "In lines 7 and 12, arithmetic makes NaN" in said
    assert "The NaN in the result come from one of them." in said
    unknown = replace(shown, nonfinite_by=(("div", 12), ("sub", 0)))
    assert why(computed_nan, unknown).startswith("NaN from arithmetic\n")


def test_a_broken_promise_is_named_if_the_result_is_right_without_it() -> None:
    edge = "multiple_of: the index as it is. On a TPU: a promise."
    said = why(edge_of_an_operation, suspect(NOISE, as_xla=X, edge=edge))
    assert said.startswith("pl.multiple_of promises a multiple that the index isn't")
    assert edge_of_an_operation(suspect(NOISE, as_xla=NOISE, edge=edge)) is None


def test_elements_that_become_numbers_were_stored() -> None:
    nan = with_part(LAST, np.nan)
    assert never_stored(suspect(nan, with_zeros=with_part(LAST, 1.0))) is None
    assert never_stored(suspect(nan, with_zeros=nan)) is None
    assert never_stored(suspect(nan)) is None
    zeros = np.zeros_like(X)  # a product of zeros and garbage tells nothing about stores
    assert never_stored(suspect(with_part(LAST, np.nan, zeros), zeros, with_zeros=zeros)) is None


@pytest.mark.parametrize(
    ("operands", "name", "words"),
    [
        (
            (output(), scratch(FirstAccess.READ)),
            "acc_ref",
            "The kernel's first access to it is a read",
        ),
        ((output(), scratch(FirstAccess.GUARDED_WRITE)), "acc_ref", "only under a condition"),
        ((output(first=FirstAccess.READ),), "o_ref", "An output block starts as whatever"),
        ((output(first=FirstAccess.GUARDED_WRITE),), "o_ref", "only under a condition"),
        # What is surely read first comes before what may be; scratch before outputs.
        (
            (output(first=FirstAccess.READ), scratch(FirstAccess.GUARDED_WRITE)),
            "o_ref",
            "access to it is a read",
        ),
        (
            (output(first=FirstAccess.GUARDED_WRITE), scratch(FirstAccess.GUARDED_WRITE)),
            "acc_ref",
            "Scratch",
        ),
    ],
)
def test_what_was_read_before_it_was_written(
    operands: tuple[Operand, ...], name: str, words: str
) -> None:
    shown = suspect(np.full_like(X, np.nan), with_zeros=X - 1, **kernel(*operands))
    said = why(read_before_written, shown)
    assert f"{name} is read before it was written" in said
    assert words in said


def test_nothing_was_read_too_early() -> None:
    nan = np.full_like(X, np.nan)
    written = kernel(output(), scratch(FirstAccess.WRITE))
    assert read_before_written(suspect(nan, with_zeros=X, **written)) is None
    read = kernel(output(), scratch(FirstAccess.READ))
    assert read_before_written(suspect(nan, with_zeros=nan, **read)) is None
    assert read_before_written(suspect(NOISE, with_zeros=X, **read)) is None
    assert read_before_written(suspect(nan, **read)) is None


def test_padding_is_told_with_its_sizes() -> None:
    shown, _ = SHOWN[padding_likely]
    said = why(padding_likely, shown)
    assert "dimension 0 has 30 elements in blocks of 8" in said
    assert "holds only 6 of them" in said
    whole = kernel(operand("x_ref", (32, 128), ROWS), output())
    assert padding_likely(replace(shown, **whole)) is None
    assert padding_likely(replace(shown, with_zeros=shown.result.actual)) is None
    squeezed = kernel(operand("x_ref", (30, 128), (None, 128)), output())
    assert padding_likely(replace(shown, **squeezed)) is None


def test_padding_along_a_dimension_that_the_result_has_not_is_the_likelier() -> None:
    """The other may spoil only what lies past the result's own edge."""
    ragged = kernel(operand("x_ref", (30, 100), (8, 64)), output())
    total = np.ones(30)
    shown = suspect(np.full(30, np.nan), total, (8,), with_zeros=total, **ragged)
    assert "dimension 1 has 100 elements in blocks of 64" in why(padding_likely, shown)


def test_nan_that_is_expected_or_garbage_is_not_computed() -> None:
    nan = with_part((0, 0), np.nan)
    assert computed_nan(suspect(nan, with_zeros=X + 1)) is None
    noise = with_part((0, 0), np.nan, NOISE)
    assert computed_nan(suspect(noise, nan, with_zeros=noise)) is None
    assert computed_nan(suspect(nan)) is None


# ---- numbers ----


def test_an_integer_row_that_should_be_zero_is_not_attention() -> None:
    row_of_zeros = with_part((0, 3), 1.5) * (X[:, :1] != X[0, 0])
    wrong = with_part((0, 3), 1.5)
    assert rows_of_nothing(suspect(wrong, row_of_zeros)) is not None
    assert rows_of_nothing(suspect(wrong, row_of_zeros, dtype="int8")) is None


def test_an_edge_is_named_only_if_it_makes_the_result_right() -> None:
    edge = "shift_left: 0. On a TPU: poison."
    said = why(edge_of_an_operation, suspect(NOISE, as_xla=X, edge=edge))
    assert "XLA's shift_left: 0. On a TPU: poison." in said
    assert edge_of_an_operation(suspect(NOISE, as_xla=NOISE, edge=edge)) is None
    assert edge_of_an_operation(suspect(NOISE)) is None


def test_a_hypothesis_is_named_only_if_it_explains_every_element() -> None:
    result = suspect(X * NOISE).result
    one, other, no = (
        (Hypothesis(f"{name} were 1", f"Look for {name}.", ()), value)
        for name, value in {
            "x": result.actual,
            "y": result.actual + 1e-9,
            "w": 0 * result.actual,
        }.items()
    )
    alone, both = changed_spec(result, [no, one]), changed_spec(result, [one, no, other])
    assert alone
    assert alone.phrase == "as if x were 1"
    assert alone.why.endswith("is as if x were 1. Look for x.")
    assert both
    assert "is as if x were 1, or as if y were 1. Look for x." in both.why
    for elsewhere in (7.0, np.nan):
        nearly = suspect(with_part((31, 5), elsewhere, X * NOISE)).result
        assert changed_spec(nearly, [one]) is None
    assert changed_spec(result, []) is None


def test_overflowed_elements_are_counted() -> None:
    assert "1 element overflowed" in why(overflowed, suspect(with_part((0, 0), -np.inf)))
    assert "8 elements overflowed" in why(overflowed, suspect(with_part(np.s_[:8, 0], np.inf)))
    expected = with_part((0, 0), np.inf)
    assert overflowed(suspect(with_part((0, 0), np.inf, NOISE), expected)) is None


def test_lines_that_make_infinity_are_named() -> None:
    shown = suspect(with_part((0, 0), -np.inf), nonfinite_by=(("log", 12),))
    assert why(overflowed, shown).startswith("infinity from arithmetic in line 12\n")
    assert "infinity of finite numbers: the log of zero." in why(overflowed, shown)


def test_padding_is_not_named_if_nan_stay_without_it() -> None:
    nan = np.full_like(X, np.nan)
    shown = suspect(nan, with_zeros=X, padding=("x_ref",), **kernel(RAGGED, output()))
    assert padding_used(shown)
    assert padding_used(replace(shown, with_zeros=with_part(LAST, np.nan))) is None


def test_one_wrong_element_that_is_no_zero() -> None:
    zeros = with_part(LAST, 0.0)
    assert all_zero(suspect(with_part((31, 5), 1e-3, zeros))) is None
    assert all_zero(suspect(with_part((31, 5), np.nan, zeros))) is None


def test_an_input_of_another_shape_or_with_a_change_is_not_the_result() -> None:
    shown = suspect(X, X + 10, inputs={"x": with_part((3, 3), 0.0), "y": X[:8]})
    assert input_unchanged(shown) is None


def test_amounts_that_differ_are_not_the_same() -> None:
    assert same_amount(suspect(with_part((0, 0), X[0, 0] + 3, X + 2))) is None
    assert same_amount(suspect(with_part((0, 0), X[0, 0] + 2))) is None, "one element tells nothing"
    assert same_amount(suspect(with_part((0, 0), np.nan, X + 2))) is None
    assert same_amount(suspect(with_part(LAST, X[LAST] + 2))), "the other blocks may be right"


def test_factors_that_differ_are_not_the_same() -> None:
    assert same_factor(suspect(with_part((0, 0), X[0, 0] * 4, X * 2))) is None
    assert same_factor(suspect(with_part((0, 0), X[0, 0] * 2))) is None, "one element tells nothing"
    assert same_factor(suspect(with_part((0, 0), np.inf, X * 2))) is None
    assert same_factor(suspect(with_part(LAST, -X[LAST]))), "the other blocks may be right"


@pytest.mark.parametrize(("pattern", "wrong"), [(same_amount, X + 3), (same_factor, X * 3)])
def test_bfloat16_rounds_on_top_of_amount_and_factor(
    pattern: Callable[[Suspect], Diagnosis | None], wrong: Values
) -> None:
    assert ": 3" in why(pattern, suspect(bfloat16(wrong), bfloat16(X), dtype="bfloat16"))


def test_each_row_has_a_factor_of_its_own() -> None:
    """As where a softmax is divided by a sum that was not rescaled."""
    factors = np.linspace(0.5, 3, 24)[:, None]
    said = why(factor_of_the_row, suspect(with_part(slice(8, 32), X[8:] * factors)))
    assert "off by its own factor, from 0.5 to 3" in said
    heads = np.stack([X, 2 * X]), np.stack([X * 2, X * 8])
    assert "from 2 to 4" in why(factor_of_the_row, suspect(heads[1], heads[0], (1, *ROWS)))
    rounded = bfloat16(np.concatenate([X[:8], X[8:] * factors]))
    assert factor_of_the_row(suspect(rounded, bfloat16(X), dtype="bfloat16"))


def test_rows_that_no_factor_explains() -> None:
    factors = np.linspace(0.5, 3, 32)[:, None]
    scaled = X * factors
    assert factor_of_the_row(suspect(with_part((5, 7), 9.0, scaled))) is None, "one element more"
    assert factor_of_the_row(suspect(with_part((5, 7), np.nan, scaled))) is None
    assert factor_of_the_row(suspect(with_part(5, 0.0, scaled))) is None, "a row is missing"
    assert factor_of_the_row(suspect(with_part(5, X[5] * 2))) is None, "one row tells nothing"
    assert factor_of_the_row(suspect(scaled[:, 0], X[:, 0], (8,))) is None, "no rows"
    zeros = with_part(5, 0.0)
    assert factor_of_the_row(suspect(zeros + scaled, zeros)) is None, "nothing to multiply"
    rough = bfloat16(X * bfloat16(1 + 0.005 * np.sin(1e4 * X)))
    assert suspect(rough, X, dtype="bfloat16").result.wrong.any()
    assert factor_of_the_row(suspect(rough, X, dtype="bfloat16")) is None, "rounding alone"


def test_integers_are_off_by_an_exact_amount() -> None:
    whole = np.arange(32.0)
    assert "amount: 1" in why(same_amount, suspect(whole + 1, whole, (8,), "int32"))
    assert "factor: 3" in why(same_factor, suspect(whole * 3, whole, (8,), "int32"))


def test_small_errors_are_neither_an_amount_nor_a_factor() -> None:
    """Two elements of a bfloat16 result, one a little too large and one a little too small."""
    got = with_part((slice(0, 1), slice(0, 2)), X[0, :2] * (1 + 3 * 2.0**-8 * np.array([1, -1])))
    assert "off by" not in str(diagnose(suspect(got, dtype="bfloat16")))


# ---- blocks ----


def test_exchanged_blocks_are_told_by_row_and_column() -> None:
    said = why(another_block, suspect(swapped_rows()))
    assert "block row 0 contains block row 1's values" in said
    assert "2 blocks of o_ref contain another block's values" in said
    assert "Look at the index maps" in said
    columns = np.concatenate([SQUARES[:, 8:], SQUARES[:, :8]], 1)
    said = why(another_block, suspect(columns, SQUARES, (8, 8)))
    assert "block column 0 contains block column 1's values" in said
    vector = np.arange(32.0)
    said = why(another_block, suspect(np.tile(vector[:8], 4), vector, (8,)))
    assert "block 1 contains block 0's values, block 2 contains block 0's values" in said


def test_moves_that_no_dimension_explains_are_listed() -> None:
    tiles = {(i, j): SQUARES[8 * i : 8 * i + 8, 8 * j : 8 * j + 8] for i in (0, 1) for j in (0, 1)}
    moved = np.block([[tiles[1, 1], tiles[0, 1]], [tiles[1, 0], tiles[0, 0]]])
    said = why(another_block, suspect(moved, SQUARES, (8, 8)))
    assert (
        "block (0, 0) contains block (1, 1)'s values; block (1, 1) contains block (0, 0)'s values"
        in said
    )


def test_every_wrong_block_must_have_a_home() -> None:
    stray = with_part(np.s_[8:16], NOISE[8:16], swapped_rows())
    assert another_block(suspect(stray)) is None
    assert another_block(suspect(X[::-1], block=X.shape)) is None, "one block has no other"


def test_the_share_names_what_is_lost() -> None:
    first = suspect(NOISE, shares=(share_of("first", NOISE),))
    assert "later grid steps' contributions are lost" in why(one_share_of_the_sum, first)
    last = suspect(NOISE, shares=(share_of("last", NOISE),))
    said = why(one_share_of_the_sum, last)
    assert "only the last block of x_ref counts" in said
    assert "along its dimension 1" in said
    assert "earlier grid steps' contributions are lost" in said


def test_a_share_that_is_the_whole_result_explains_nothing() -> None:
    """Another result of the kernel depends on the blocks, this one doesn't."""
    off = X + 1.5 * tolerance(X, "float32", Roundings(), Sum())
    assert one_share_of_the_sum(suspect(off, shares=(share_of("first", X),))) is None


def test_stale_values_must_explain_every_wrong_block() -> None:
    shown = never_cleared()
    assert left_over(suspect(with_part(LAST, NOISE[LAST], shown))) is None
    assert left_over(suspect(with_part((0, 0), np.nan, shown))) is None
    assert left_over(suspect(shown, block=X.shape)) is None


def test_nothing_is_left_over_of_a_block_of_zeros() -> None:
    """A block that is barely wrong was once taken for one with the zeros of another added."""
    expected = with_part((slice(0, 8), slice(None)), 0.0, X)
    allowed = tolerance(expected, "float32", Roundings(), Sum())
    barely = with_part(LAST, expected[LAST] + 2 * allowed[LAST].max(), expected)
    assert left_over(suspect(barely, expected)) is None


def test_a_block_that_is_not_turned() -> None:
    turned = with_part(np.s_[:8, :8], 9.0, blockwise_transposed())
    assert transposed(suspect(turned, SQUARES, (8, 8))) is None
    assert transposed(suspect(np.arange(8.0)[::-1], np.arange(8.0), (4,))) is None


def test_elements_of_a_vector_in_another_order() -> None:
    vector = np.random.default_rng(2).standard_normal(32)
    backwards = np.concatenate([block[::-1] for block in np.split(vector, 4)])
    assert "elements are in another order" in why(rows_reordered, suspect(backwards, vector, (8,)))
    assert rows_reordered(suspect(vector[::-1], vector, (8,))) is None, "not within the blocks"


def test_rows_with_other_values_are_not_reordered() -> None:
    changed = with_part((3, 100), 50.0, X[::-1])
    assert rows_reordered(suspect(changed, block=X.shape)) is None
    assert rows_reordered(suspect(with_part((3, 0), np.nan, X[::-1]), block=X.shape)) is None


def test_large_errors_and_integers_are_not_rounding() -> None:
    rounded = bfloat16(X)
    assert rounded_too_early(suspect(X + 0.1 * NOISE / 100)) is None
    assert rounded_too_early(suspect(X + 1e-6 * NOISE)) is None, "float32's own size"
    assert rounded_too_early(suspect(with_part((0, 0), np.nan, rounded))) is None
    assert (
        rounded_too_early(suspect(np.arange(100.0) + 1, np.arange(100.0), (100,), "int32")) is None
    )


def test_an_expected_infinity_is_not_rounding() -> None:
    assert rounded_too_early(suspect(X, with_part((0, 0), np.inf))) is None


def test_a_ragged_last_block_is_told() -> None:
    ragged, noise = X[:30], NOISE[:30]
    shown = suspect(with_part(np.s_[24:], noise[24:], ragged), ragged)
    assert "holds only 6 of 8 elements" in why(only_the_last, shown)
    assert "elements" not in why(only_the_last, SHOWN[only_the_last][0])


def test_first_and_last_are_told_along_their_axis() -> None:
    columns = with_part(np.s_[:, 8:], 77.0, SQUARES)
    shown = suspect(columns, SQUARES, (8, 8))
    assert "Along dimension 1 only the last block is wrong" in why(only_the_last, shown)
    assert "Along dimension 1 only the first block is right" in why(only_the_first, shown)
    middle = suspect(with_part(np.s_[8:16], NOISE[8:16]))
    assert only_the_last(middle) is None
    assert only_the_first(middle) is None


# ---- where patterns overlap ----


SYMMETRIC = SQUARES + SQUARES.T
OVERFLOWN = with_part((1, 1), np.inf)
CORNER = SQUARES[:8, :8]
TURN = CORNER.T - CORNER

OVERLAPS: dict[str, tuple[Suspect, Callable[..., Any], Callable[..., Any]]] = {
    "a race leaves memory unwritten": (
        suspect(
            np.full_like(X, np.nan),
            output_blocks=walk((0, 0), (0, 0)),
            with_zeros=np.zeros_like(X),
            **kernel(output(axes=()), parallel=(0,)),
        ),
        shared_by_parallel_steps,
        never_visited,
    ),
    "a block never visited is never stored": (
        suspect(
            with_part(LAST, np.nan),
            output_blocks=walk((0, 0), (1, 0), (2, 0)),
            with_zeros=with_part(LAST, 0.0),
            **kernel(output()),
        ),
        never_visited,
        never_stored,
    ),
    "zeros remain of an output that is read first": (
        suspect(
            np.full_like(X, np.nan),
            with_zeros=np.zeros_like(X),
            **kernel(output(first=FirstAccess.READ)),
        ),
        never_stored,
        read_before_written,
    ),
    "scratch is read first and an input is ragged": (
        suspect(
            np.full_like(X, np.nan),
            with_zeros=X,
            **kernel(RAGGED, output(), scratch(FirstAccess.READ)),
        ),
        read_before_written,
        padding_likely,
    ),
    "NaN and infinity": (
        suspect(with_part((0, 0), np.nan, OVERFLOWN), with_zeros=with_part((0, 0), np.nan)),
        computed_nan,
        overflowed,
    ),
    "an unchanged input of zeros": (
        suspect(np.zeros_like(X), inputs={"x": np.zeros_like(X)}),
        all_zero,
        input_unchanged,
    ),
    "zero times the value": (suspect(np.zeros_like(X)), all_zero, same_factor),
    "an unchanged input lacks the amount": (
        suspect(X, X + 10, inputs={"x": X}),
        input_unchanged,
        same_amount,
    ),
    "an unchanged input lacks the factor": (
        suspect(X, 2 * X, inputs={"x": X}),
        input_unchanged,
        same_factor,
    ),
    "one value everywhere": (suspect(X * 0 + 6, X * 0 + 2), same_amount, same_factor),
    "a block that looks like its double": (
        suspect(np.tile(X[:8], (2, 1)) * 2, np.concatenate([X[:8], 2 * X[:8]])),
        same_factor,
        another_block,
    ),
    "mirror images across the diagonal": (
        suspect(
            np.block(
                [[SYMMETRIC[:8, :8], SYMMETRIC[8:, :8]], [SYMMETRIC[:8, 8:], SYMMETRIC[8:, 8:]]]
            ),
            SYMMETRIC,
            (8, 8),
        ),
        another_block,
        transposed,
    ),
    "the last block alone, in place of the first": (
        suspect(
            np.concatenate([X[8:16], X[8:16]]),
            X[:16],
            shares=(share_of("last", np.concatenate([X[8:16], X[8:16]])),),
        ),
        another_block,
        one_share_of_the_sum,
    ),
    "the first share is carried on": (
        suspect(never_cleared(), shares=(share_of("first", never_cleared()),)),
        one_share_of_the_sum,
        left_over,
    ),
    "turned by what was left": (
        suspect(np.concatenate([TURN, CORNER.T]), np.concatenate([TURN, CORNER]), (8, 8)),
        left_over,
        transposed,
    ),
    "rows that are alike": (
        suspect(1 + X[::-1] / 100, 1 + X / 100, X.shape),
        rows_reordered,
        rounded_too_early,
    ),
    "sums are carried on from the first block": (
        suspect(never_cleared()),
        left_over,
        only_the_first,
    ),
    "rounded in the last block": (
        suspect(with_part(LAST, bfloat16(X[LAST]))),
        rounded_too_early,
        only_the_last,
    ),
    "two blocks, the last wrong": (
        suspect(with_part(np.s_[8:], NOISE[8:16], X[:16]), X[:16]),
        only_the_last,
        only_the_first,
    ),
}


@pytest.mark.parametrize("overlap", OVERLAPS)
def test_the_more_certain_pattern_is_told(overlap: str) -> None:
    shown, told, other = OVERLAPS[overlap]
    assert told(shown)
    assert told(shown) == diagnose(shown)
    assert other(shown), "no overlap"


# ---- the picture and the headline ----


def test_map_shows_the_grid() -> None:
    wrong = with_part(np.s_[8:, :8], 77.0, SQUARES)
    assert map_of_blocks(suspect(wrong, SQUARES, (8, 8)).result) == "  . .\n  # ."
    vector = np.arange(32.0)
    assert map_of_blocks(suspect(with_part(9, -5.0, vector), vector, (8,)).result) == "  . # . ."


@pytest.mark.parametrize(
    ("shape", "block", "wrong"),
    [
        ((8, 8), (8, 8), 1),
        ((66, 2), (2, 2), 1),
        ((4, 4, 4), (2, 2, 2), 1),
        ((), (), 1),
        ((8, 8), (4, 4), 64),
    ],
    ids=["one-block", "too-many", "three-dimensions", "scalar", "all-wrong"],
)
def test_map_is_left_out(shape: Index, block: Index, wrong: int) -> None:
    actual = np.zeros(shape)
    actual.flat[:wrong] = 1
    assert map_of_blocks(suspect(actual, np.zeros(shape), block).result) == ""


@pytest.mark.parametrize(
    ("actual", "block", "says"),
    [
        (with_part((0, 0), 9.0), X.shape, "o_ref: 1 of 4096 elements are wrong"),
        (with_part(LAST, 9.0), ROWS, "o_ref: block (3, 0) of its 4×1 blocks is wrong"),
        (with_part(np.s_[8:24], 9.0), ROWS, "blocks (1, 0) and (2, 0) of its 4×1 blocks are wrong"),
        (NOISE, ROWS, "o_ref: all of its 4×1 blocks are wrong"),
        (NOISE, (2, 128), "o_ref: all of its 16×1 blocks are wrong"),
        (
            with_part(np.s_[:16], 9.0),
            (2, 128),
            "blocks (0, 0), (1, 0), (2, 0), (3, 0) and 4 more of its 16×1 blocks are wrong",
        ),
    ],
)
def test_headline(actual: Values, block: Index, says: str) -> None:
    assert says in headline(suspect(actual, block=block).result)


def test_results_that_are_exchanged() -> None:
    """Of several results, the one that holds all that belongs in another."""
    other = X[::-1] * 3
    others = (result("result 1", X, other), result("result 2", X[:8], X[:8]))
    found = diagnose(suspect(other, block=X.shape, others=others))
    assert found
    assert found.phrase == "o_ref contains the values of result 1"
    assert "the order in which they are returned" in found.why
    near = (result("result 1", X, with_part((3, 4), 9.0, other)),)
    unlike = diagnose(suspect(other, block=X.shape, others=near))
    assert unlike is None or "belongs in" not in unlike.phrase


def test_few_columns_that_are_wrong() -> None:
    found = diagnose(suspect(with_part((slice(None), slice(5, 20, 7)), NOISE[:, 5:20:7])))
    assert found
    assert found.phrase == "only 3 of 128 columns are wrong"
    assert "the first is 5, the last 19" in found.why


def test_rows_are_numbered_within_their_dimensions() -> None:
    deep = np.stack([X, X])
    found = diagnose(suspect(with_part((1, slice(4, 9)), NOISE[4:9], deep), deep, deep.shape))
    assert found
    assert "the first is (1, 4), the last (1, 8)" in found.why


@pytest.mark.parametrize("rows", [slice(0, 4), slice(0, 12), slice(5, 6)], ids=str)
def test_errors_of_some_rows_are_no_rounding(rows: slice) -> None:
    """However small: rounding too early touches all rows."""
    small = with_part(rows, (X * (1 + 0.02 * NOISE))[rows])
    found = diagnose(suspect(small))
    assert found is None or "rounded" not in found.phrase


def test_errors_of_some_columns_are_no_rounding() -> None:
    small = with_part((slice(None), slice(0, 40)), (X * (1 + 0.01 * NOISE))[:, :40])
    found = diagnose(suspect(small))
    assert found is None or "rounded" not in found.phrase


def test_an_error_of_the_values_size_is_no_rounding() -> None:
    found = diagnose(suspect(with_part((3, slice(7, 9)), -2.0, bfloat16(X))))
    assert found is None or "rounded" not in found.phrase


def test_a_row_that_should_be_zero_and_is_not_is_no_rounding() -> None:
    right = with_part(5, 0.0)
    found = diagnose(suspect(with_part(5, 0.01, bfloat16(right)), right))
    assert found is None or "rounded" not in found.phrase


def test_rows_of_nothing_are_told_what_a_near_mask_does() -> None:
    right = with_part(5, 0.0)
    wrong = with_part(5, 0.25, right)
    near = diagnose(suspect(wrong, right, **kernel(output(), lints=(Lint.NEAR_MASK,))))
    far = diagnose(suspect(wrong, right, **kernel(output())))
    assert near
    assert far
    assert near.phrase == far.phrase == "rows to which nothing contributes are not zero"
    assert "its maximum is above the initial maximum" in near.why
    assert "avoids (−inf) − (−inf)" in far.why


def test_a_near_mask_wins_over_rounding() -> None:
    found = diagnose(suspect(bfloat16(X), **kernel(output(), lints=(Lint.NEAR_MASK,))))
    assert found
    assert found.phrase.startswith("a mask value")
