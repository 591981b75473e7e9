"""Each number with a unit in a docstring equals what its entry in tests/course/numbers computes."""

from __future__ import annotations

import dataclasses
import re

import pytest

from grader.exercise.catalog import Kata, katas
from tests.support import docstring_numbers
from tests.support.contract import demand
from tests.support.docstring_numbers import (
    FOLDER,
    PLAIN,
    QUANTITY,
    WORDS,
    Entry,
    Names,
    NumberProblem,
    Table,
    differs,
    explanation,
    not_covered,
    not_there,
    table_of,
    tables,
)
from tests.support.repositories import ROOT

TRACKS = {
    *("1_basics", "2_fusion", "3_attention", "4_grouped_matmul", "5_pipelines", "6_serving"),
    *("7_numerics", "9_many_cores"),
}
EVERY = [one for one in katas(ROOT, "solutions") if one.track in TRACKS]
TABLES = {one.name: tables(one.track).get(one.name, Table()) for one in EVERY}
PREDICTED = [one for one in EVERY if any(entry.predicts for entry in TABLES[one.name].entries)]

each = pytest.mark.parametrize("exercise", EVERY, ids=lambda kata: kata.name)


def words_of(exercise: Kata) -> str:
    return explanation(exercise.solution.read_text("utf-8"))


@each
def test_each_quantity_has_an_entry(exercise: Kata) -> None:
    """And each entry is about a text that is there."""
    file, words, table = (
        FOLDER / f"{exercise.track}.toml",
        words_of(exercise),
        TABLES[exercise.name],
    )
    missing, stale = not_covered(words, table), not_there(words, table)
    demand(
        not missing,
        file,
        f"[{exercise.name}] has no entry for: {'; '.join(missing)}",
        'Add "QUANTITY" = "EXPRESSION", as tests/support/docstring_numbers.py describes',
    )
    demand(
        not stale,
        file,
        f"[{exercise.name}] has entries for {stale}, and the docstring has no such text",
        "Correct the text, or remove the entry",
    )


@each
def test_arithmetic(exercise: Kata) -> None:
    compared(exercise, [one for one in TABLES[exercise.name].entries if not one.predicts])


@pytest.mark.parametrize("exercise", PREDICTED, ids=lambda kata: kata.name)
def test_predictions(exercise: Kata, request: pytest.FixtureRequest) -> None:
    """Times by XLA, of jax's kernels, on other chips, of other katas: only with --every-case."""
    pytest.importorskip("libtpu")
    if not docstring_numbers.same_compiler():
        pytest.skip("docs/roofline.json names another libtpu")
    every = request.config.getoption("--every-case")
    entries = [one for one in TABLES[exercise.name].entries if one.predicts]
    compared(exercise, [one for one in entries if every or not one.is_slow])


def compared(exercise: Kata, entries: list[Entry]) -> None:
    """Fail if the docstring has another number than one of the entries."""
    if not entries:
        return
    names, words = Names(exercise, TABLES[exercise.name]), words_of(exercise)
    wrong = []
    for entry in entries:
        try:
            wrong.append(differs(entry, names.value(entry), words))
        except NumberProblem as error:
            wrong.append(str(error))
    demand(
        not any(wrong),
        exercise.solution,
        f"its docstring has other numbers: {'; '.join(filter(None, wrong))}",
        "Correct the docstring, or the entry in tests/course/numbers",
    )


def test_each_table_has_its_docstring() -> None:
    names = {"leaky_relu", *(one.name for one in katas(ROOT, "solutions"))}  # docs/authoring.md's
    for track in TRACKS:
        assert not tables(track).keys() - names


# ---- the checker ----


@each
def test_other_numbers_are_found(exercise: Kata) -> None:
    """Each number that arithmetic gives, once it is a digit or 6 % off."""
    entries = [one for one in TABLES[exercise.name].entries if not one.predicts]
    if not entries:
        return
    names, words = Names(exercise, TABLES[exercise.name]), words_of(exercise)
    for entry in entries:
        value = names.value(entry)
        for factor in (0.8, 1.2):
            assert differs(entry, factor * value, words) or _is_coarse(entry, factor)


def _is_coarse(entry: Entry, factor: float) -> bool:
    """Whether a change by a factor is less than the last digit of the entry's number."""
    number = entry.quantity["number"]
    written = WORDS.get(str(number)) or float(number.replace(",", ""))
    return abs(factor - 1) * written <= 10.0 ** -len(number.partition(".")[2])


DOCSTRING = '''"""Copy.

Concept
    A copy of 64 MiB, read and written, takes about 160 µs, 3 times as long as 43 ns in a
    table, and two of 64 MiB take 1.50 ms. 0 times NaN is NaN, and 8 times as
    much takes six times as long.

Shapes
    x   12 MiB
"""
'''


def test_quantities_are_found() -> None:
    words = explanation(DOCSTRING)
    found = [one.group() for one in QUANTITY.finditer(words)]
    times = ["0 times", "8 times", "six times"]
    assert found == ["64 MiB", "160 µs", "3 times", "43 ns", "64 MiB", "1.50 ms", *times]
    missing = not_covered(words, table_of({"64 MiB": "0", "3 times": "0", "8 times": "0"}))
    assert [re.search(r"160|43|1\.50|six", one) is not None for one in missing] == [True] * 4


def test_a_text_with_neighbours_covers_one_of_several() -> None:
    words = explanation(DOCSTRING)
    every, others = (
        not_covered(words, Table()),
        not_covered(words, table_of({"two of 64 MiB": "0"})),
    )
    assert len(every) == len(others) + 1
    assert len(every) == len(not_covered(words, table_of({"64 MiB": "0"}))) + 2
    assert not_there(words, table_of({"4 MiB": "0", "64 MiB": "0", "12 MiB": "0"})) == [
        "4 MiB",
        "12 MiB",
    ]


@pytest.mark.parametrize(
    ("text", "value", "right"),
    [
        ("64 MiB", 64 * 2**20, True),
        ("64 MiB", 64.4 * 2**20, True),
        ("64 MiB", 64.6 * 2**20, False),
        ("1.50 ms", 1.504e-3, True),
        ("1.50 ms", 1.51e-3, False),
        ("about 160 µs", 167e-6, True),
        ("160 µs", 167e-6, False),
        ("57 %", 0.571, True),
        ("57 %", 57, False),
        ("six times", 6.2, True),
        ("six times", 7, False),
        ("1,024 steps", 1024, True),
    ],
)
def test_a_number_is_rounded_like_its_text(text: str, value: float, right: bool) -> None:
    assert (differs(Entry(text, "0"), value) == "") is right


def test_a_prediction_may_be_one_digit_off() -> None:
    """But not more than 5 %: "2 ms" may not be 1.4 ms."""
    predicted = Entry("160 µs", "time()")
    assert not differs(predicted, 160.9e-6)
    assert differs(predicted, 161.1e-6)
    assert differs(Entry("2 ms", "time()"), 1.4e-3)


def test_about_may_stand_before_the_text() -> None:
    words = explanation(DOCSTRING)
    assert not differs(Entry("160 µs", "0"), 165e-6, words)
    assert differs(Entry("43 ns", "0"), 45e-9, words)


def test_an_unknown_name_and_a_missing_text_are_problems() -> None:
    exercise = next(one for one in EVERY if one.name == "scale_2d")
    with pytest.raises(NumberProblem, match="no_name"):
        Names(exercise, Table()).value(Entry("1 MiB", "no_name"))
    table = dataclasses.replace(Table(), other={"wrong": [["no such text", ""]]})
    with pytest.raises(NumberProblem, match="occurs 0 times"):
        Names(exercise, table).value(Entry("1 ms", "time('wrong')"))
    with pytest.raises(NumberProblem, match="0 known mistakes"):
        Names(exercise, table).value(Entry("1 ms", "time('no such mistake')"))
    assert PLAIN.search("takes 246")
