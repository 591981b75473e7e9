"""Hidden cases: a function of exercise, key and seed alone, and all choices are dealt."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.exercise.answer_key import Key, Sizes, Slack
from grader.exercise.cases import SEED_BITS, draw, random_seed
from grader.verdict import Case
from pallascope.model import Roundings
from pallascope.tools import codec
from tests.support.repositories import ROOT

NAME = "1_first/double"
KEY = Key(
    title="Double",
    concept="doubling",
    write="kernel",
    hints=("a", "b", "c"),
    fillings=("pass",),
    debugging=False,
    choices={
        "M": ("2*bm", "3*bm", "bm + K"),
        "bm": (8, 16),
        "K": (1, 2, 3, 4),
        "N": tuple(range(128, 128 * 20, 128)),
    },
    dtypes=("float32", "bfloat16", "int8"),
    count=4,
    production=None,
    kernel=True,
    outside=(),
    outside_floats=False,
    full_precision=False,
    roundings=Roundings(),
    timeout=None,
    par_required=False,
    slack=Slack(),
    mistakes=(),
)
seeds = st.integers(0, 2**SEED_BITS - 1)
anywhere = settings(deadline=None, database=None, max_examples=50)


def sizes(cases: tuple[Case, ...]) -> list[dict[str, int]]:
    return [case.sizes for case in cases]


@anywhere
@given(seeds)
def test_the_same_seed_deals_the_same_cases(seed: int) -> None:
    assert draw(NAME, KEY, seed) == draw(NAME, dataclasses.replace(KEY), seed)


def test_another_seed_or_exercise_deals_other_cases() -> None:
    cases = draw(NAME, KEY, 1)
    for other in (draw(NAME, KEY, 2), draw("1_first/triple", KEY, 1)):
        assert sizes(other) != sizes(cases)
        assert {case.seed for case in other}.isdisjoint(case.seed for case in cases)


def test_another_key_leaves_the_arrays_as_they_are() -> None:
    """An author who changes the table keeps the values that a seed stands for."""
    other = dataclasses.replace(KEY, choices={"N": (128,)})
    assert [c.seed for c in draw(NAME, other, 7)] == [c.seed for c in draw(NAME, KEY, 7)]


def test_the_order_in_the_key_changes_nothing_but_the_order_of_the_sizes() -> None:
    turned = dataclasses.replace(KEY, choices=dict(reversed(KEY.choices.items())))
    assert sizes(draw(NAME, turned, 5)) == sizes(draw(NAME, KEY, 5))
    assert list(draw(NAME, KEY, 5)[0].sizes) == ["M", "bm", "K", "N"]
    assert list(draw(NAME, turned, 5)[0].sizes) == ["N", "K", "bm", "M"]


PROCESS = """
import json
from pallascope.tools import codec
from grader.exercise.cases import draw
from tests.exercise.test_cases import KEY, NAME
print(json.dumps(codec.to_builtins(draw(NAME, KEY, 12345))))
"""


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_every_process_deals_alike(hash_seed: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROCESS],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(ran.stdout) == codec.to_builtins(draw(NAME, KEY, 12345))


@anywhere
@given(seeds)
def test_a_list_no_longer_than_the_cases_is_covered(seed: int) -> None:
    cases = draw(NAME, KEY, seed)
    assert {case.sizes["bm"] for case in cases} == {8, 16}
    assert {case.sizes["K"] for case in cases} == {1, 2, 3, 4}
    assert {case.dtype for case in cases} == set(KEY.dtypes)
    # Two values in four cases: each twice.
    assert [case.sizes["bm"] for case in cases].count(8) == 2


@anywhere
@given(seeds)
def test_a_longer_list_is_dealt_without_repeats(seed: int) -> None:
    assert len({case.sizes["N"] for case in draw(NAME, KEY, seed)}) == KEY.count


def test_every_value_of_a_longer_list_turns_up() -> None:
    found = {case.sizes["N"] for seed in range(60) for case in draw(NAME, KEY, seed)}
    assert found == set(KEY.choices["N"])


def test_choices_are_dealt_apart_from_each_other() -> None:
    """Two names with lists of one length do not always go hand in hand."""
    key = dataclasses.replace(KEY, choices={"a": (1, 2), "b": (1, 2)}, dtypes=("int8", "bool"))
    cases = [case for seed in range(20) for case in draw(NAME, key, seed)]
    assert len({(case.sizes["a"], case.sizes["b"], case.dtype) for case in cases}) == 8


@anywhere
@given(seeds)
def test_arithmetic_is_settled_with_the_sizes_of_its_case(seed: int) -> None:
    for case in draw(NAME, KEY, seed):
        bm, k = case.sizes["bm"], case.sizes["K"]
        assert case.sizes["M"] in (2 * bm, 3 * bm, bm + k)


def test_arithmetic_may_stand_on_arithmetic_in_any_order() -> None:
    key = dataclasses.replace(KEY, choices={"a": ("b + 1",), "b": ("2*c",), "c": (3,)})
    assert sizes(draw(NAME, key, 0)) == [{"a": 7, "b": 6, "c": 3}] * 4


@pytest.mark.parametrize("count", [3, 5])
def test_cases_are_numbered_and_carry_seeds_of_their_own(count: int) -> None:
    cases = draw(NAME, dataclasses.replace(KEY, count=count), 99)
    assert [case.index for case in cases] == list(range(count))
    assert {case.session_seed for case in cases} == {99}
    assert {case.kata for case in cases} == {NAME}
    assert len({case.seed for case in cases}) == count
    assert all(0 <= case.seed < 2**SEED_BITS for case in cases)


@anywhere
@given(seeds)
def test_a_row_is_one_card(seed: int) -> None:
    rows = {"a": (1, 2, 3), "b": ("2*c", "c", 7), "c": (8, 16)}
    key = dataclasses.replace(KEY, choices=rows, together=(("a", "b"),))
    cases = draw(NAME, key, seed)
    for case in cases:
        a, b, c = case.sizes.values()
        assert b == {1: 2 * c, 2: c, 3: 7}[a]
    assert {case.sizes["a"] for case in cases} == {1, 2, 3}


def test_rows_leave_other_names_as_they_are_dealt() -> None:
    """Names that stay alone and come before are dealt the same; a given size stands in its row."""
    key = dataclasses.replace(KEY, together=(("M", "bm"),), choices={**KEY.choices, "M": (8, 16)})
    alone = [case["K"] for case in sizes(draw(NAME, KEY, 3))]
    assert [case["K"] for case in sizes(draw(NAME, key, 3))] == alone
    assert {case["bm"] for case in sizes(draw(NAME, key, 3, {"bm": 5}))} == {5}


def test_a_case_in_words_names_sizes_and_dtype() -> None:
    case = Case(NAME, 0, 1, 2, {"bm": 8, "M": 16}, "bfloat16")
    assert str(case) == "bm=8, M=16, dtype=bfloat16"


def test_a_session_without_a_seed_draws_one() -> None:
    drawn = {random_seed() for _ in range(20)}
    assert len(drawn) > 1
    assert all(0 <= seed < 2**SEED_BITS for seed in drawn)


def large(choices: dict[str, tuple[int | str, ...]], dtypes: tuple[str, ...]) -> Key:
    """The key with a case of production size."""
    return dataclasses.replace(KEY, production=Sizes({**KEY.choices, **choices}, (), dtypes))


@anywhere
@given(seeds)
def test_the_case_of_production_size_is_the_last_and_changes_no_other(seed: int) -> None:
    key = large({"M": ("64*bm",), "bm": (512, 1024)}, ("bfloat16",))
    *small, last = draw(NAME, key, seed)
    assert tuple(small) == draw(NAME, KEY, seed)
    assert (last.index, last.production, last.dtype) == (KEY.count, True, "bfloat16")
    assert last.sizes["bm"] in (512, 1024)
    assert last.sizes["M"] == 64 * last.sizes["bm"]
    assert list(last.sizes) == list(KEY.choices)
    assert not any(case.production for case in small)


def test_the_case_of_production_size_is_drawn_too() -> None:
    key = large({"bm": (512, 1024)}, ("float32", "bfloat16"))
    drawn = [draw(NAME, key, seed)[-1] for seed in range(40)]
    assert {case.sizes["bm"] for case in drawn} == {512, 1024}
    assert {case.sizes["K"] for case in drawn} == {1, 2, 3, 4}
    assert {case.dtype for case in drawn} == {"float32", "bfloat16"}


def test_given_sizes_reach_the_case_of_production_size() -> None:
    last = draw(NAME, large({"M": ("64*bm",)}, ("int8",)), 1, {"bm": 32})[-1]
    assert last.sizes["M"] == 64 * 32
    assert str(last).endswith("dtype=int8 (of production size)")
