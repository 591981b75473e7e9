"""What rounding explains and what it does not; which elements and blocks are wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pallascope.checks.compare import ROUNDOFF, SWAYS, Comparison, Sum, coarsest, compare, tolerance
from pallascope.model import Mode, Roundings
from pallascope.tools.arrays import from_numpy
from tests.pallascope.support.calls import array, operand

Values = np.ndarray[Any, Any]
DTYPES: list[Any] = [np.float32, ml_dtypes.bfloat16, np.float16]
LENGTHS = [8, 128, 1024, 4096]

dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
lengths = pytest.mark.parametrize("length", LENGTHS)


def terms(length: int, dtype: Any, positive: bool = False) -> Values:
    drawn = np.random.default_rng(length).standard_normal((64, length), np.float32)
    return (np.abs(drawn) if positive else drawn).astype(dtype)


def one_by_one(values: Values, dtype: Any) -> Values:
    """Rows summed from left to right, each partial sum rounded to `dtype`."""
    total = np.zeros(values.shape[0], dtype)
    for column in values.T:
        total = (total.astype(np.float32) + column.astype(np.float32)).astype(dtype)
    return total


def in_blocks(values: Values) -> Values:
    """Rows summed in float32, in blocks from the last to the first: another order."""
    parts = np.split(values.astype(np.float32), 8, axis=1)[::-1]
    return np.sum([part[:, ::-1].sum(1, dtype=np.float32) for part in parts], 0, np.float32)


def judged(got: Values, values: Values, roundings: int = 2, mode: Mode = Mode.STRICT) -> Comparison:
    exact = from_numpy(values.astype(np.float64).sum(1))
    behind = Sum(values.shape[1])
    return compare("o", from_numpy(got), exact, None, Roundings(roundings), behind, mode)


@dtypes
@lengths
@pytest.mark.parametrize("add", [lambda v: one_by_one(v, np.float32), in_blocks])
@pytest.mark.parametrize("positive", [False, True])
def test_a_float32_sum_in_any_order_is_right(
    dtype: Any, length: int, add: Callable[[Values], Values], positive: bool
) -> None:
    values = terms(length, dtype, positive)
    assert not judged(add(values).astype(dtype), values, roundings=1).wrong.any()


@lengths
@pytest.mark.parametrize("result", [np.float32, ml_dtypes.bfloat16])
def test_a_bfloat16_accumulator_is_wrong(length: int, result: Any) -> None:
    values = terms(length, ml_dtypes.bfloat16)
    got = one_by_one(values, ml_dtypes.bfloat16).astype(result)
    assert judged(got, values).wrong.any()


def test_one_missing_term_is_wrong() -> None:
    values = terms(4096, np.float32)
    assert judged(one_by_one(values[:, :-1], np.float32), values).wrong.mean() > 0.9


@dtypes
def test_as_many_roundings_as_the_key_allows(dtype: Any) -> None:
    """An error of almost `n` half-units is right for n roundings, wrong for n - 1."""
    name = np.dtype(dtype).name
    expected = np.linspace(1, 2, 50)
    for roundings in (2, 5):
        error = (roundings - 0.1) * ROUNDOFF[name] * expected
        assert (error <= tolerance(expected, name, Roundings(roundings), Sum())).all()
        if name != "float32":  # there the second term, for sums, allows more
            assert (error > tolerance(expected, name, Roundings(roundings - 1), Sum())).all()


def test_cancelled_sums_are_judged_by_the_largest_element() -> None:
    allowed = tolerance(np.array([0.0, 1000.0]), "float32", Roundings(1), Sum(100))
    assert 1e-5 < allowed[0] < 0.1
    assert allowed[1] > allowed[0]


def test_longer_sums_may_err_more() -> None:
    short, long = (tolerance(np.ones(1), "float32", Roundings(1), Sum(n))[0] for n in (1, 10_000))
    assert 10 * short < long < 100 * short * 1.01


def test_what_the_inputs_rounding_moves_is_allowed_several_times() -> None:
    expected = np.array([0.0, 1.0])
    plain = tolerance(expected, "float32", Roundings(1), Sum(8))
    swayed = tolerance(expected, "float32", Roundings(1), Sum(8, sway=1e-4))
    np.testing.assert_allclose(swayed - plain, SWAYS * 1e-4)


def test_nan_and_infinity_do_not_widen_the_tolerance() -> None:
    plain = tolerance(np.array([1.0, 2.0]), "float32", Roundings(2), Sum(8))
    odd = tolerance(np.array([1.0, 2.0, np.nan, -np.inf]), "float32", Roundings(2), Sum(8))
    assert np.array_equal(odd[:2], plain)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool"])
def test_integers_and_bools_are_exact(dtype: str) -> None:
    assert not tolerance(np.array([1e6, 0.0]), dtype, Roundings(64, 64), Sum(4096)).any()


def test_one_off_is_wrong_for_integers() -> None:
    values = array([1, 3], "int32"), array([1, 2], "int32")
    got = compare("o", *values, None, Roundings(), Sum(9), Mode.STRICT)
    assert got.wrong.tolist() == [False, True]


def test_a_compiled_matmul_may_round_its_operands() -> None:
    """At default precision an MXU multiplies bfloat16; an element-wise result may not."""
    x = np.random.default_rng(0).standard_normal((64, 128))
    rounded = x.astype(ml_dtypes.bfloat16).astype(np.float64) * x
    got = rounded.sum(1).astype(np.float32)
    exact = from_numpy((x * x).sum(1))

    def wrong(mode: Mode, contraction: int) -> bool:
        behind = Sum(contraction)
        found = compare("o", from_numpy(got), exact, None, Roundings(), behind, mode)
        return bool(found.wrong.any())

    assert not wrong(Mode.COMPILED, 128)
    assert wrong(Mode.STRICT, 128)
    assert wrong(Mode.INTERPRET, 128)
    assert wrong(Mode.COMPILED, 1)


def test_a_sum_of_operands_that_were_rounded() -> None:
    """As where p of a softmax meets v in bfloat16: allowed if the key says so, and once."""
    draw = np.random.default_rng(0)
    p, v = draw.random((64, 256)), draw.standard_normal((256, 64))
    once = p.astype(ml_dtypes.bfloat16).astype(np.float64) @ v
    exact, got = from_numpy(p @ v), from_numpy(once.astype(np.float32))

    def wrong(operands: int, dtype: str) -> bool:
        behind = Sum(256, dtype)
        roundings = Roundings(2, operands)
        return bool(compare("o", got, exact, None, roundings, behind, Mode.STRICT).wrong.any())

    assert wrong(0, "bfloat16")
    assert not wrong(1, "bfloat16")
    assert wrong(1, "float32")


def test_the_coarsest_dtype_among_floats_and_integers() -> None:
    assert coarsest(["float32", "int32", "bfloat16", "float16"]) == "bfloat16"
    assert coarsest(["int32", "bool"]) == "float32"


# ---- where it is wrong ----


def comparison(actual: Values, expected: Values, block: tuple[int, ...]) -> Comparison:
    return Comparison("o_ref", "float32", actual, expected, np.full(expected.shape, 0.5), block)


def test_nan_and_infinity_are_right_where_they_are_expected() -> None:
    odd = np.array([np.nan, np.inf, -np.inf, 1.0])
    assert not comparison(odd, odd, (4,)).wrong.any()
    assert comparison(odd, np.ones(4), (4,)).wrong.tolist() == [True, True, True, False]
    assert comparison(np.ones(4), odd, (4,)).wrong.tolist() == [True, True, True, False]
    assert comparison(odd, -odd, (4,)).wrong.tolist() == [False, True, True, True]


def test_wrong_blocks_and_their_elements() -> None:
    expected = np.zeros((6, 10))
    actual = expected.copy()
    actual[2, 0] = actual[5, 9] = 1
    actual[0, 0] = 0.4  # within what is allowed
    result = comparison(actual, expected, (2, 4))
    assert result.grid == (3, 3)
    assert len(result.indices()) == 9
    assert result.wrong_blocks == ((1, 0), (2, 2))
    assert result.part((2, 2)) == (slice(4, 6), slice(8, 12))
    assert result.block_of((5, 9)) == (2, 2)


def test_a_block_larger_than_the_array_is_one_block() -> None:
    result = comparison(np.ones((5, 3)), np.zeros((5, 3)), (8, 128))
    assert result.grid == (1, 1)
    assert result.wrong_blocks == ((0, 0),)


def test_the_worst_element() -> None:
    actual = np.array([[0.0, 9.0], [-20.0, 0.4]])
    assert comparison(actual, np.zeros((2, 2)), (2, 2)).worst() == (1, 0)
    actual[0, 1] = np.nan
    assert comparison(actual, np.zeros((2, 2)), (2, 2)).worst() == (0, 1)


def test_the_worst_element_is_a_wrong_one() -> None:
    """The error is larger elsewhere, but there it is allowed."""
    allowed = np.array([10.0, 0.1])
    result = Comparison("o", "float32", np.array([5.0, 1.0]), np.zeros(2), allowed, (2,))
    assert result.worst() == (1,)


def test_close_needs_one_shape_and_numbers() -> None:
    result = comparison(np.zeros(4), np.zeros(4), (4,))
    slack = np.full(2, 0.5)
    assert result.close(np.array([1.0, 2.0]), np.array([1.4, 1.6]), slack)
    assert not result.close(np.array([1.0, 2.0]), np.array([1.4, 1.4]), slack)
    assert not result.close(np.array([1.0, np.nan]), np.array([1.0, 2.0]), slack)
    assert not result.close(np.zeros(2), np.zeros((2, 1)), slack)


def test_blocks_are_those_of_the_output_operand() -> None:
    zeros = array(np.zeros((4, 16, 128)))
    o_ref = operand("o_ref", (4, 16, 128), (None, 8, 128))
    through = compare("the result", zeros, zeros, o_ref, Roundings(), Sum(), Mode.STRICT)
    assert (through.name, through.block, through.grid) == ("o_ref", (1, 8, 128), (4, 2, 1))
    alone = compare("the result", zeros, zeros, None, Roundings(), Sum(), Mode.STRICT)
    assert (alone.name, alone.block, alone.grid) == ("the result", (4, 16, 128), (1, 1, 1))
    assert alone.dtype == "float32"
