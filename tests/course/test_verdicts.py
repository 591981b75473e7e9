"""What every exercise is graded: its stub, its solution, and its solution with each known mistake.

`--share newest` grades a part, as CI does on the newest jax. `--seeds` and `--every-case` grade
more.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from grader.checks.evidence import TpuEvidence
from grader.exercise.answer_key import Mistake
from grader.exercise.cases import draw
from grader.exercise.catalog import Kata, katas
from grader.exercise.key_tables import KataKind
from grader.exercise.mutants import wrong_version
from grader.grading.grader import Grader, costs, evidence_of
from grader.grading.ladder import Judgement, verdict
from grader.report.failures import anchor_of, section_of
from grader.sandbox.client import WorkerClient
from grader.verdict import Case, State
from pallascope.model import Check, Finding
from pallascope.tpu import OnChip, compiler
from tests.support.contract import Plan, demand
from tests.support.repositories import ROOT, with_text
from tests.support.targets import due, no_compiler

EVERY = katas(ROOT, "solutions")
SECONDS = 60
ASK_THE_COMPILER = (Check.COMPILES, Check.COST)
ON_THE_WAY_TO_THE_CHIP = (Check.LOWERS, *ASK_THE_COMPILER)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The exercise comes first in every id: one worker gets all tests of one exercise."""
    if "exercise" not in metafunc.fixturenames:
        return
    plan = Plan.of(metafunc.config)
    if "mistake" in metafunc.fixturenames:
        mistakes = plan.share.mistakes(EVERY)
        metafunc.parametrize(("exercise", "mistake"), mistakes, ids=map(_id, mistakes))
    else:
        stubs = metafunc.definition.name == test_stub_is_todo.__name__
        exercises = plan.share.stubs(EVERY) if stubs else EVERY
        metafunc.parametrize("exercise", exercises, ids=lambda kata: kata.name)
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", plan.seeds, ids=lambda seed: f"seed{seed}")


def _id(pair: tuple[Kata, Mistake]) -> str:
    kata, mistake = pair
    words = re.sub(r"\W+", "-", f"{mistake.caught.value}-{mistake.title}").strip("-")
    return f"{kata.name}-{words}".replace("kata", "exercise")  # not for pytest -k kata


@pytest.fixture
def plan(pytestconfig: pytest.Config) -> Plan:
    return Plan.of(pytestconfig)


@pytest.mark.verdict
def test_stub_is_todo(exercise: Kata, plan: Plan, grader: Grader, tmp_path: Path) -> None:
    stub = with_text(exercise, tmp_path, exercise.stub_text())
    demand(
        stub.untouched(), exercise.path, "the stub does not count as untouched", "Run `kata sync`"
    )
    cases = draw(stub.id, stub.key, plan.seeds[0])
    case = cases[0]
    state = grader.grade(stub, case, SECONDS).state
    if exercise.key.debugging:  # its given code runs, and has to be wrong, or slow
        if exercise.key.par_required:
            if reason := compiler.unavailable_reason():
                pytest.skip(reason)
            case = cases[-1]
            state = grader.grade(stub, case, SECONDS).state
        demand(
            state is State.FAILED,
            exercise.key_path,
            f"the given code of `stub` is {state.value} on the hidden case {case}",
            "Put the mistake that is to be found into it, so that this case shows it",
        )
    else:
        demand(
            state is State.TODO,
            exercise.solution,
            f"the stub is {state.value} where it should be todo, on the hidden case {case}",
            "Have the launch reach a solution region, which raises, before anything else can fail",
        )


@pytest.mark.verdict
def test_solution_earns_every_star(
    exercise: Kata, seed: int, plan: Plan, grader: Grader, own_par: Grader, tmp_path: Path
) -> None:
    """Beside par that was computed by another process: at least on one case that is run."""
    solved = with_text(exercise, tmp_path, exercise.solution.read_text())
    for number, case in enumerate(plan.cases(draw(solved.id, solved.key, seed))):
        apart = plan.every_case or not (number or case.production)
        grade = (grader if apart else own_par).grade(solved, case, SECONDS)
        expected = due(solved, case)
        demand(
            grade.finding is None and grade.stars == expected.stars,
            exercise.solution,
            f"it earns {grade.stars} stars on the hidden case {case} of seed {seed}. It is told:\n"
            f"{_told(grade.finding)}",
            "Correct it, or what its key says: [cases], outside, roundings, slack",
        )
        assert grade.not_judged == expected.not_judged
        if expected.not_judged or not (solved.key.kernel and costs(solved, case)):
            assert grade.cost is None
        elif solved.key.mesh:  # how long communication takes is not predicted: bytes are
            assert grade.cost is not None
        else:  # with the compiler there is a time, and it is par's own
            cycles = grade.cost and grade.cost.cycles
            demand(
                cycles,
                exercise.solution,
                f"no time can be predicted for the hidden case {case} of seed {seed}",
                f"Look at why: kata cost {exercise.name} --seed {seed} --case {case.index}",
            )
            demand(
                not grade.cost or cycles == grade.cost.par_cycles,
                exercise.solution,
                f"two processes predict different times for the hidden case {case}",
                "A prediction is to depend on nothing but kernel, case, chip and versions",
            )


def mistaken(exercise: Kata, mistake: Mistake) -> str:
    """The solution with the mistake made, inside its regions."""
    try:
        return wrong_version(exercise.solution.read_text(), mistake)
    except ValueError as error:
        remedy = "Make it a piece of the solution that stands there exactly once"
        demand(False, exercise.key_path, str(error), remedy)
        raise


@pytest.mark.verdict
def test_mistake_is_rejected(
    exercise: Kata, mistake: Mistake, seed: int, plan: Plan, asking: WorkerClient, tmp_path: Path
) -> None:
    compiled = exercise.key.kernel and mistake.caught in ASK_THE_COMPILER
    if compiled and (reason := no_compiler(exercise)):
        pytest.skip(reason)
    wrong = with_text(exercise, tmp_path, mistaken(exercise, mistake))
    heard, shown = [], False
    cases = plan.in_order(draw(wrong.id, wrong.key, seed))
    if mistake.caught is Check.COST and wrong.key.kernel:
        cases = tuple(case for case in cases if costs(wrong, case))
    for case in cases:
        if shown and not plan.every_case:
            return
        found = judged(asking, wrong, case, mistake)
        finding = found.finding
        if finding is None:
            continue
        heard.append(f"{case}: {_told(finding)}")
        if finding.check is mistake.caught and _says(finding, mistake.says):
            shown = True
            slow = finding.check is Check.COST and wrong.key.kernel
            solved = slow and not wrong.key.par_required
            assert found.state is (State.PASSED if solved else State.FAILED)
            assert found.stars == 2 if slow else found.stars < 2
            assert anchor_of(finding) != section_of(finding.check), "docs/errors.md has no entry"
    reason = compiler.unavailable_reason()
    if mistake.caught is Check.PREDICTIONS and reason and not shown:
        pytest.skip(reason)
    demand(
        shown,
        exercise.key_path,
        f"the mistake {mistake.title!r} is not rejected as it says, by `{mistake.caught.value}` "
        f"with the words {mistake.says!r}, on any hidden case of seed {seed}. It is told:\n"
        + ("\n\n".join(heard) or "nothing: it passes every hidden case"),
        "Correct `caught` and `says`, or draw [cases] that show it in every session",
    )


class NotAsked(Exception):
    """The values are right on this case, and the way to the chip is not what shows the mistake."""


def judged(asking: WorkerClient, wrong: Kata, case: Case, mistake: Mistake) -> Judgement:
    """The verdict, from no more than the rungs up to the one that is to reject the mistake."""

    def not_asked() -> OnChip:
        raise NotAsked

    evidence = evidence_of(asking, wrong, case, SECONDS)
    before_the_chip = mistake.caught not in ON_THE_WAY_TO_THE_CHIP and not case.production
    if isinstance(evidence, TpuEvidence) and before_the_chip:
        evidence = dataclasses.replace(evidence, own_on_chips=not_asked)
    try:
        return verdict(evidence)
    except NotAsked:
        return Judgement(State.PASSED, 1)


def _told(finding: Finding | None) -> str:
    return f"{finding.check.value}: {finding.phrase}\n{finding.message}" if finding else "nothing"


def _says(finding: Finding, words: str) -> bool:
    return words.lower() in " ".join(_told(finding).lower().split())


def test_no_launch_may_call_its_spec(grader: Grader, tmp_path: Path) -> None:
    """Where there is no kernel to ask for, the spec itself would be a right answer."""
    plain = next(kata for kata in EVERY if kata.key.kind is KataKind.TABLES)
    spec = f"return {plain.name}_spec(*arrays, **sizes)"
    text = re.sub(
        rf"def {plain.name}\([\s\S]*?(?=\n\n\ndef test_)",
        f"def {plain.name}(*arrays, **sizes):\n    {spec}",
        plain.solution.read_text(),
    )
    called = with_text(plain, tmp_path, text)
    grade = grader.grade(called, draw(called.id, called.key, 1)[0], SECONDS)
    assert grade.state is State.FAILED
    assert grade.finding
    assert f"it calls {plain.name}_spec" in grade.finding.message
