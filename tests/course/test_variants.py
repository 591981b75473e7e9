"""Right kernels in other styles are accepted: each earns the stars that its file says.

A session grades the first variant of each kata on one hidden case, and one that costs more than par
also on the production case. With `--every-case`, as in `.ci/full`, all are graded on all hidden
cases; with -k, all that it selects.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from grader.exercise.cases import draw
from grader.exercise.catalog import katas
from grader.exercise.variants import Variant, variants
from grader.grading.grader import Grader
from grader.sandbox.client import WorkerClient
from grader.sandbox.launch_client import WorkerQueues
from grader.verdict import MAX_STARS
from pallascope.model import Check
from pallascope.tpu import compiler
from pallascope.tpu.chips import CHIPS
from tests.support.contract import Plan, demand
from tests.support.repositories import ROOT, with_text
from tests.support.targets import due, no_compiler

SECONDS = 60
#: Right kernels in other styles that each exercise has at least.
FEWEST = 2


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "variant" not in metafunc.fixturenames:
        return
    option = metafunc.config.getoption
    chosen = variants()
    if not (option("keyword") or option("--every-case")):
        chosen = tuple({variant.kata.id: variant for variant in reversed(chosen)}.values())[::-1]
    metafunc.parametrize("variant", chosen, ids=lambda variant: variant.id)


@pytest.mark.verdict
def test_right_variant_earns_its_stars(
    variant: Variant, pytestconfig: pytest.Config, grader: Grader, tmp_path: Path
) -> None:
    written = with_text(variant.kata, tmp_path, variant.text())
    asked = variant.kata.key.kernel or variant.kata.key.predictions
    unasked = asked and (no_compiler(variant.kata) or not variant.kata.key.target.uses_libtpu)
    plan = Plan.of(pytestconfig)
    for seed in plan.seeds:
        dearer = variant.stars < MAX_STARS
        cases = plan.some(written, draw(written.id, written.key, seed), shows_cost=dearer)
        grades = [grader.grade(written, case, SECONDS) for case in cases]
        for case, grade in zip(cases, grades, strict=True):
            told = grade.not_judged
            if grade.finding:
                told = f"{grade.finding.phrase}\n{grade.finding.message}"
            demand(
                grade.stars >= min(due(written, case).stars, variant.stars),
                variant.path,
                f"it is right, and earns {grade.stars} stars on the hidden case {grade.drawn} of "
                f"seed {seed}. It is told:\n{told}",
                "Correct what refuses it, in the grader or in its key; a wrong variant, remove",
            )
        if unasked or variant.depends or variant.stars == MAX_STARS:
            continue
        slow = [grade for grade in grades if grade.stars == variant.stars]
        demand(
            slow and all(g.finding and g.finding.check is Check.COST for g in slow),
            variant.path,
            f"no hidden case of seed {seed} shows that it costs more than par",
            "Say 'Stars: 3', or draw cases of a size where the cost shows",
        )


@pytest.mark.skipif(compiler.unavailable_reason() != "", reason="libtpu is not installed")
@pytest.mark.parametrize("chip", CHIPS)
def test_blocks_chosen_by_chip_earn_their_stars_on_each(
    chip: str, lines: WorkerQueues, tmp_path: Path
) -> None:
    """`pltpu.get_tpu_info()` tells of the chip that a kernel is traced for, on any machine."""
    (chosen,) = (variant for variant in variants() if variant.style == "tpu_info")
    written = with_text(chosen.kata, tmp_path, chosen.text())
    grader = Grader(WorkerClient(lines, (chip,)))
    first, *_, production = draw(written.id, written.key, 0)
    for case in (first, production):
        grade = grader.grade(written, case, SECONDS)
        assert (grade.stars, grade.not_judged) == (chosen.stars, None), grade


def test_every_exercise_has_other_styles() -> None:
    counted = Counter(variant.kata.name for variant in variants())
    few = [kata.name for kata in katas(ROOT, "solutions") if counted[kata.name] < FEWEST]
    assert not few, f"write right kernels in other styles for {few}: tests/variants"
