"""The rung that compares what comes back with what the spec returns."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.checks.shapes_and_dtypes import check
from pallascope.model import ArrayType, Check, Observation
from tests.pallascope.support.calls import doubling, trace
from tests.support.factories import X, attempt, evidence, reference

TWO = replace(reference((2 * X, X[0])), annotations=('Float[Array, "M N"]', 'Float[Array, "N"]'))


def returning(*results: ArrayType) -> Observation:
    return attempt(traced=trace(doubling(), results=results))


def told(tried: Observation, against: object = None) -> str:
    finding = check(evidence(tried, TWO if against else None))
    assert finding is not None
    assert finding.check is Check.CONTRACT
    return f"{finding.phrase}\n{finding.message}"


def test_the_right_types_are_fine() -> None:
    assert check(evidence(attempt())) is None
    both = (ArrayType("float32", (32, 128)), ArrayType("float32", (128,)))
    assert check(evidence(returning(*both), TWO)) is None


def test_another_shape() -> None:
    said = told(returning(ArrayType("float32", (128, 32))))
    assert said.startswith("returns shape (128, 32), not (32, 128)\n")
    assert "the result is float32[128, 32], not float32[32, 128]" in said
    assert "x: float32[32, 128]" in said
    assert '-> Float[Array, "M N"]' in said
    assert "out_shape" in said


def test_a_dimension_of_size_1_is_named() -> None:
    column = replace(reference((X[:, :1],)), annotations=('Float[Array, "M 1"]',))
    finding = check(evidence(returning(ArrayType("float32", (32,))), column))
    assert finding
    said = " ".join(finding.message.split())
    assert "(32,) lacks a dimension of size 1" in said
    assert "out_shape=jax.ShapeDtypeStruct((32, 1), …)" in said
    other = returning(ArrayType("float32", (1, 32, 128)))
    assert "(1, 32, 128) has another dimension of size 1" in " ".join(told(other).split())


@pytest.mark.parametrize(
    ("value", "kind"), [("[f32[32,128], f32[128]]", "list"), ("{0: f32}", "dict")]
)
def test_a_container_that_is_no_tuple_is_named(value: str, kind: str) -> None:
    both = returning(ArrayType("float32", (32, 128)), ArrayType("float32", (128,)))
    rejected = f"Type-check error whilst checking the return value of f.\nActual value: {value}\n"
    said = told(replace(both, broken_annotation=rejected), TWO)
    assert said.startswith(f"returns a {kind}, not a tuple")
    assert "Return the arrays as a tuple" in said
    assert "out_shape" not in said


def test_parts_of_devices_that_are_put_together_wrongly() -> None:
    for shape, words in {
        (16, 128): "Dimension 0 has 16 elements instead of 32: that is one device's part",
        (32, 256): "Dimension 1 has 256 elements instead of 128. If out_specs names an axis",
    }.items():
        tried = replace(returning(ArrayType("float32", shape)), devices=4)
        assert words in " ".join(told(tried).split())
    other = replace(returning(ArrayType("float32", (24, 128))), devices=4)
    assert "out_shape" in told(other)


def test_a_forgotten_return() -> None:
    said = told(returning())
    assert said.startswith("returns 0 arrays instead of 1\n")
    assert "word return missing in front of the last call" in " ".join(said.split())
    assert "out_shape" not in said


def test_another_dtype() -> None:
    said = told(returning(ArrayType("bfloat16", (32, 128))))
    assert said.startswith("returns dtype bfloat16, not float32\n")


def test_the_shape_comes_before_the_dtype() -> None:
    assert told(returning(ArrayType("bfloat16", (32,)))).startswith("returns shape (32,)")


def test_the_result_at_fault_is_named() -> None:
    said = told(returning(ArrayType("float32", (32, 128)), ArrayType("float32", (32,))), TWO)
    assert "result 1 is float32[32], not float32[128]" in said
    assert '-> Float[Array, "M N"], Float[Array, "N"]' in said


def test_more_or_fewer_results() -> None:
    one = ArrayType("float32", (32, 128))
    assert told(returning(one), TWO).startswith("returns 1 arrays instead of 2\n")
    said = told(returning(one, one))
    assert said.startswith("returns 2 arrays instead of 1\n")
    assert "It returns float32[32, 128], float32[32, 128]; the spec returns float32" in said
    assert "It returns nothing" in told(returning())


def test_a_broken_annotation_is_told_in_its_own_words() -> None:
    words = "\n".join(f"line {i}" for i in range(20))
    said = told(attempt(broken_annotation=words))
    assert said.startswith("breaks its annotation\n")
    assert "jaxtyping and beartype reject" in said
    assert "  line 11\n" in said
    assert "line 12" not in said
    assert "breaks its annotation" in told(Observation(broken_annotation=words))


def test_a_wrong_result_comes_before_a_broken_annotation() -> None:
    both = replace(returning(ArrayType("float32", (3,))), broken_annotation="no")
    assert told(both).startswith("returns shape")
