"""Tests that do not look at results: none of them tells kernels apart."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grader.exercise.cases import draw
from grader.exercise.catalog import katas
from grader.grading.grader import Grader
from grader.verdict import State
from pallascope.model import Check, Finding
from tests.support.repositories import ROOT, with_text

KATA = next(kata for kata in katas(ROOT, "solutions") if kata.key.tested)
BODY = re.compile(r"(?<=    # BEGIN SOLUTION\n)[\s\S]*?(?=    # END SOLUTION)")
CALL = "launch(jnp.ones((8, 128)), jnp.ones((128, 128)), jnp.zeros((1, 128)))"

ALL_BUT_THE_FIRST = f"""
    {CALL}
    jax.calls = getattr(jax, "calls", 0) + 1
    assert jax.calls == 1
"""
ENDS_ITSELF = "    import os\n    os._exit(0)\n"
NEVER_LOOKS = f"    {CALL}\n"


@pytest.mark.parametrize(
    ("body", "check", "says"),
    [
        (ALL_BUT_THE_FIRST, Check.PLANTED, "passes for a kernel that"),
        (ENDS_ITSELF, Check.RUNS, "exit code 0"),
        (NEVER_LOOKS, Check.PLANTED, "passes for a kernel that"),
        ("    pass\n", Check.PLANTED, "never calls the launch"),
    ],
    ids=["all-but-the-first", "ends-itself", "never-looks", "never-calls"],
)
def test_it_earns_nothing(
    body: str, check: Check, says: str, grader: Grader, tmp_path: Path
) -> None:
    text = BODY.sub(lambda _: body.lstrip("\n"), KATA.solution.read_text())
    written = with_text(KATA, tmp_path, text)
    found: list[Finding] = []
    for case in draw(written.id, written.key, 1)[:2]:
        grade = grader.grade(written, case, 60)
        assert grade.state is State.FAILED or not found
        found += [grade.finding] if grade.finding else []
    assert found
    assert found[0].check is check
    assert says in f"{found[0].phrase}\n{found[0].message}"
