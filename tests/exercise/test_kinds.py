"""The kinds of kata in answer keys: the keys that each needs, and those that it can't have."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.exercise.answer_key import Key
from grader.exercise.key_reader import load
from grader.exercise.key_tables import KataKind, KeyProblem, Planted

COMMON = """title = "T"
concept = "c"
write = "w"
hints = ["a", "b", "c"]
"""
CASES = "[cases]\nT = [8, 16]\n"
PREDICTIONS = f'{COMMON}todo = ["x"]\n[predictions]\nprograms = ["f", "g"]\nwithin = 0.1\n{CASES}'
TEST = f"""{COMMON}todo = ["x"]
tested = "dense"
[[planted]]
title = "forgets"
old = "a"
new = "b"
"""
KINDS = {
    KataKind.KERNEL: f'{COMMON}todo = ["x"]\n{CASES}',
    KataKind.TABLES: f'{COMMON}todo = ["x"]\nkernel = false\n{CASES}',
    KataKind.CASE_FILE: f'{COMMON}stub = ["x = 1"]\n{CASES}',
    KataKind.PREDICTIONS: PREDICTIONS,
    KataKind.TEST: TEST,
}


def read(tmp_path: Path, text: str) -> Key:
    file = tmp_path / "t.toml"
    file.write_text(text, encoding="utf-8")
    return load(file)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name.lower())
def test_a_key_says_its_kind(kind: KataKind, tmp_path: Path) -> None:
    key = read(tmp_path, KINDS[kind])
    assert key.kind is kind
    assert key.kernel is (kind in (KataKind.KERNEL, KataKind.CASE_FILE))


def test_predictions_name_programs(tmp_path: Path) -> None:
    asked = read(tmp_path, PREDICTIONS).predictions
    assert asked
    assert (asked.programs, asked.within) == (("f", "g"), 0.1)


def test_a_test_names_its_launch_and_draws_no_sizes(tmp_path: Path) -> None:
    key = read(tmp_path, TEST)
    assert key.tested
    assert key.tested.launch == "dense"
    assert key.tested.planted == (Planted("forgets", "a", "b"),)
    assert not key.choices


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (PREDICTIONS.replace('["f", "g"]', "[]"), "predictions.programs: needs names"),
        (PREDICTIONS.replace('"g"', '"f"'), "predictions.programs: names a function twice"),
        (PREDICTIONS.replace("0.1", "2"), "predictions.within: needs a fraction below 1"),
        (PREDICTIONS.replace("within", "wthin"), "predictions.wthin: unknown key"),
        (f"kernel = false\n{PREDICTIONS}", r"kernel: has no meaning with \[predictions\]"),
        (f'tested = "f"\n{PREDICTIONS}', "planted: needs at least one wrong version"),
        (f"{TEST}{CASES}", "cases: has no meaning with `tested`: a test"),
        (f"{TEST}right = 1\n", r"planted\[0\].right: needs true or false"),
        (f"{TEST}right = true\n", "planted: needs at least one wrong version"),
        (TEST.replace('old = "a"', 'old = ""'), r"planted\[0\].old: needs a text"),
        (TEST.replace('tested = "dense"\n', ""), "tested: needs the name of the launch"),
        (TEST.replace('"dense"', '"a b"'), "tested: needs the name of a function"),
        (f'{TEST}[[planted]]\ntitle = "forgets"\nold = "a"\nnew = "c"\n', "two have the title"),
        (f"par = 'required'\n{TEST}", "par: has no meaning with `tested`"),
    ],
)
def test_what_is_said_of_other_keys(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(KeyProblem, match=says):
        read(tmp_path, text)
