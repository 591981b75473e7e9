"""How the files of a kata are laid out: what is written first, and lines that fit on a screen."""

from __future__ import annotations

import ast
import re

import pytest

from grader.exercise.catalog import Kata, katas
from pallascope.tools.regions import regions
from tests.support.contract import demand
from tests.support.repositories import ROOT

FAR = 65  # lines from the end of the docstring to the first region
WIDE = 110  # columns of a line in an answer key
#: One short name alone on a line in brackets, as a formatter leaves (B, N,) behind.
DEBRIS = re.compile(r"\s+[A-Za-z]\w?,")

each = pytest.mark.parametrize("exercise", katas(ROOT, "solutions"), ids=lambda kata: kata.name)


@each
def test_what_to_write_comes_first(exercise: Kata) -> None:
    text = exercise.solution.read_text()
    docstring_ends = ast.parse(text).body[0].end_lineno or 0
    below = regions(text)[0].begin - docstring_ends
    demand(
        below <= FAR,
        exercise.solution,
        f"its first region stands {below} lines below the docstring",
        f"Write it within {FAR}: move inputs, helpers and long given kernels below the launch",
    )


@each
def test_lines_of_the_key_fit_on_a_screen(exercise: Kata) -> None:
    lines = exercise.key_path.read_text(encoding="utf-8").splitlines()
    wide = [number for number, line in enumerate(lines, start=1) if len(line) > WIDE]
    demand(
        not wide,
        exercise.key_path,
        f"lines {wide} are longer than {WIDE} columns",
        'Break them: in a text between """, a backslash joins a line and the next',
    )


@each
def test_no_debris_of_a_formatter(exercise: Kata) -> None:
    lines = exercise.solution.read_text(encoding="utf-8").splitlines()
    left = [number for number, line in enumerate(lines, start=1) if DEBRIS.fullmatch(line)]
    demand(
        not left,
        exercise.solution,
        f"lines {left} hold nothing but a short name and a comma",
        "Take away the comma at the end of the bracket, and format again",
    )
