"""Values to builtins, to one message, and back."""

from __future__ import annotations

import json
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.exercise.answer_key import DTYPES
from grader.verdict import Case, Grade, State
from pallascope.model import (
    Accident,
    Array,
    ArrayType,
    Check,
    Clues,
    Finding,
    Observation,
    Operand,
    OutputBlocks,
    Problem,
    Reference,
    Role,
    Share,
    Trace,
)
from pallascope.tools import codec
from pallascope.tools.arrays import (
    dtype_of,
    from_numpy,
    in_float64,
    to_numpy,
)

st.register_type_strategy(float, st.floats(allow_nan=False))  # NaN is equal to nothing
anything = settings(deadline=None, database=None, max_examples=25)
grades = st.from_type(Grade)
CARRIED = (
    Accident,
    Observation,
    Case,
    Clues,
    Finding,
    Operand,
    Problem,
    Reference,
    Trace,
    OutputBlocks,
)


@pytest.mark.parametrize("kind", CARRIED, ids=lambda kind: kind.__name__)
def test_every_value_survives_a_message(kind: type) -> None:
    @anything
    @given(st.from_type(kind))
    def survives(value: Any) -> None:
        assert codec.unpack(kind, codec.pack(value)) == value

    survives()


@anything
@given(grades)
def test_a_grade_survives_json(grade: Grade) -> None:
    data = json.loads(json.dumps(codec.to_builtins(grade)))
    assert codec.from_builtins(Grade, data) == grade


def builtin(value: Any) -> bool:
    """Whether a value is made of exact builtins: no enum, no tuple, no subclass."""
    if type(value) is dict:
        return all(type(key) is str and builtin(item) for key, item in value.items())
    if type(value) is list:
        return all(map(builtin, value))
    return type(value) in (str, int, float, bool, bytes, type(None))


@anything
@given(st.one_of(grades, st.from_type(Observation), st.from_type(Reference)))
def test_only_builtins_are_left(value: Any) -> None:
    assert builtin(codec.to_builtins(value))


def test_the_form_of_a_grade() -> None:
    grade = Grade("1_a/x", 2, State.FAILED, 1, Finding(Check.VALUES, "off", "off by one"))
    assert codec.to_builtins(grade) == {
        "kata": "1_a/x",
        "case": 2,
        "state": "failed",
        "stars": 1,
        "finding": {"check": "values", "phrase": "off", "message": "off by one", "full": ""},
        "drawn": "",
        "seconds": 0.0,
        "printed": "",
        "cost": None,
        "not_judged": None,
        "notes": [],
        "blob": "",
        "gpu": "",
        "accident": False,
    }


def test_fields_that_are_missing_take_their_defaults() -> None:
    data = {"kata": "x", "case": 0, "state": "todo", "stars": 0}
    assert codec.from_builtins(Grade, data) == Grade("x", 0, State.TODO, 0)


def test_tables_carry_values_too() -> None:
    table = {"a": State.TODO, "b": State.PASSED}
    assert codec.to_builtins(table) == {"a": "todo", "b": "passed"}
    assert codec.unpack(dict[str, State], codec.pack(table)) == table


# ---- arrays ----


def test_array_bytes_stand_behind_the_text_as_they_are() -> None:
    one, none, two = bytes(range(256)), b"", b'{"$bytes": 3}'
    arrays = tuple(Array("uint8", (len(data),), data) for data in (one, none, two))
    value = Observation(outputs=arrays)
    message = codec.pack(value)
    assert message.endswith(one + none + two)
    assert codec.unpack(Observation, message) == value


def test_arrays_in_nested_values_keep_their_places() -> None:
    array = {n: Array("int8", (n,), bytes([n] * n)) for n in (1, 2, 3)}
    value = Clues(
        with_zeros=(array[2],),
        shares=(
            Share("x", 0, "first", (array[1], array[3])),
            Share("y", 1, "last", (array[2],)),
        ),
    )
    assert codec.unpack(Clues, codec.pack(value)) == value


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_of_a_key_survives(dtype: str) -> None:
    values = np.arange(6).reshape(2, 3).astype(dtype_of(dtype))
    array = from_numpy(values)
    back = to_numpy(codec.unpack(Observation, codec.pack(Observation(outputs=(array,)))).outputs[0])
    assert (array.dtype, array.shape) == (dtype, (2, 3))
    assert back.dtype == values.dtype
    assert back.tobytes() == values.tobytes()
    assert in_float64(array).dtype == np.float64
    assert in_float64(array).tolist() == [
        [float(bool(i) if dtype == "bool" else i) for i in row] for row in ([0, 1, 2], [3, 4, 5])
    ]


def test_an_array_is_copied_in_c_order_whatever_its_strides() -> None:
    values = np.arange(12, dtype=np.int16).reshape(3, 4)
    for view in (values.T, values[::-1], values[:, 1::2], values[0, 0]):
        assert np.array_equal(to_numpy(from_numpy(view)), view)
    array = from_numpy(values)
    values[:] = 0
    assert to_numpy(array)[2, 3] == 11


def test_bfloat16_keeps_what_only_it_says() -> None:
    special = np.array([np.nan, np.inf, -0.0, 1 / 3], ml_dtypes.bfloat16)
    array = from_numpy(special)
    assert array.dtype == "bfloat16"
    assert to_numpy(array).tobytes() == special.tobytes()
    assert in_float64(array)[3] == 0.333984375


def test_an_array_in_words() -> None:
    assert str(Array("bfloat16", (8, 128), b"")) == "bfloat16[8, 128]"
    assert str(ArrayType("int8", ())) == "int8[]"


# ---- data of another form ----

CASE = codec.to_builtins(Case("x", 0, 1, 2, {"M": 8}, "int8"))
WRONG = {
    "text for a number": (Case, {**CASE, "index": "0"}),
    "number for a text": (Case, {**CASE, "dtype": 8}),
    "number for bytes": (Array, {"dtype": "int8", "shape": [1], "data": 3}),
    "half a size": (Case, {**CASE, "sizes": {"M": 8.5}}),
    "number for a tuple": (OutputBlocks, {"steps": 3, "outputs": []}),
    "none for a text": (Case, {**CASE, "dtype": None}),
    "nothing for a place": (Problem, {"stage": "run", "kind": "", "message": "", "place": {}}),
    "field missing": (Case, {"index": 0}),
    "no such enum": (Role, "scratched"),
    "too few": (tuple[int, str], [1]),
    "too many": (tuple[int, str], [1, "a", 2]),
}


@pytest.mark.parametrize(("kind", "data"), WRONG.values(), ids=WRONG.keys())
def test_data_of_another_form_is_refused(kind: Any, data: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        codec.from_builtins(kind, data)


def test_the_wrong_type_is_told() -> None:
    with pytest.raises(TypeError, match="expected int, got str: '0'"):
        codec.from_builtins(Case, {**CASE, "index": "0"})


STRANGE = {
    "list for a value": (Case, []),
    "text for a table": (dict[str, int], "M"),
    "field unknown": (Case, {**CASE, "colour": 3}),
    "text for a tuple": (tuple[str, ...], "abc"),
}


@pytest.mark.parametrize(("kind", "data"), STRANGE.values(), ids=STRANGE.keys())
def test_data_of_any_other_form_is_refused_alike(kind: Any, data: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        codec.from_builtins(kind, data)
