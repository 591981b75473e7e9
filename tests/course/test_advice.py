"""A program that knows nothing of kernels follows the advice of a message, and the kernel is right.

Each mistake is one that the key doesn't name. The program only reads the phrase: a line, and the
operation that it should have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.exercise.cases import draw
from grader.exercise.catalog import Kata, katas
from grader.grading.grader import Grader
from grader.verdict import State
from pallascope.tools.regions import BEGIN
from tests.support.repositories import ROOT, with_text

SECONDS = 60
#: By name of the exercise: a piece of the solution, and a beginner's version of it.
MISTAKES = {
    "ragged_tail": ("o_ref[...] += jnp.sum(x", "o_ref[...] = jnp.sum(x"),
    "rms_norm": ("jax.lax.rsqrt(mean", "jnp.sqrt(mean"),
    "layer_norm_residual": ("y = h - jnp.mean", "y = h + jnp.mean"),
    "cumulative_sum": ("(bn, bn), 1)", "(bn, bn), 0)"),
    "rope": ("a * cos - b * sin", "a * cos + b * sin"),
    "linear_cross_entropy": ("label_sum[...] += ", "label_sum[...] = "),
    "right_on_one_core": ("column <= row", "column >= row"),
    "emit_pipeline": ("acc_ref[...] += jnp", "acc_ref[...] = jnp"),
    "int4_weights": ("o_ref[...] += total", "o_ref[...] = total"),
    "packed_int4": ("o_ref[...] += ", "o_ref[...] = "),
    "row_quantiser": ("jnp.minimum(amax", "jnp.maximum(amax"),
}
EXERCISES = [kata for kata in katas(ROOT, "solutions") if kata.name in MISTAKES]


def graded(exercise: Kata, text: str, grader: Grader, folder: Path) -> str:
    """The phrase of the first finding about the hidden cases that run; "" if all are right."""
    written = with_text(exercise, folder, text)
    for case in draw(written.id, written.key, 1):
        if not case.production:
            grade = grader.grade(written, case, SECONDS)
            if grade.state is State.FAILED:
                assert grade.finding
                return grade.finding.phrase
    return ""


def followed(line: str, advice: str) -> Iterator[str]:
    """The line with one change that the advice may mean."""
    if found := re.match(r"had (?P<new>\S+) instead of (?P<old>\S+)", advice):
        sign = rf"(?<![<>=+*/-]){re.escape(found['old'])}(?![<>=+*/-])"
        for place in re.finditer(sign, line):
            yield line[: place.start()] + found["new"] + line[place.end() :]
        yield line.replace(f"jnp.{found['old']}(", f"jax.lax.{found['new']}(")
    elif "(+=)" in advice:
        yield line.replace("] = ", "] += ", 1)
    elif found := re.match(r"counted along dimension (?P<new>\d) instead of (?P<old>\d)", advice):
        yield re.sub(rf"\b{found['old']}\)", f"{found['new']})", line, count=1)
    elif advice == "divided instead of multiplying":
        for place in re.finditer(r" \* ", line):
            yield f"{line[: place.start()]} / {line[place.end() :]}"
    elif "sides of the minus" in advice:
        for place in re.finditer(r"(\w+) - (\w+)", line):
            yield f"{line[: place.start()]}{place[2]} - {place[1]}{line[place.end() :]}"
    elif found := re.match(r"took the (?P<new>\w+) instead of the (?P<old>\w+)", advice):
        yield line.replace(found["old"], found["new"], 1)


@pytest.mark.verdict
@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.name)
def test_the_advice_repairs_the_kernel(exercise: Kata, grader: Grader, tmp_path: Path) -> None:
    right, wrong = MISTAKES[exercise.name]
    given, begin, region = exercise.solution.read_text().partition(BEGIN)
    assert right in region
    text = given + begin + region.replace(right, wrong, 1)
    phrase = graded(exercise, text, grader, tmp_path)
    advice = re.fullmatch(r"right, if line (?P<line>\d+) (?P<change>.*)", phrase)
    assert advice, phrase
    lines = text.splitlines()
    at = int(advice["line"]) - 1
    tried = [
        "\n".join([*lines[:at], changed, *lines[at + 1 :], ""])
        for changed in followed(lines[at], advice["change"])
    ]
    assert "" in [graded(exercise, each, grader, tmp_path) for each in tried], phrase
