"""What the repository promises of its exercises; each of them is held to it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from grader.exercise import keys
from grader.exercise.cases import draw
from grader.exercise.catalog import Kata, katas
from grader.exercise.keys import Mistake
from grader.exercise.regions import regions
from grader.exercise.repository import Synced, sync
from grader.grading.grader import Grader
from grader.model import MOST_STARS, Check, State
from grader.tpu import compiler
from tests.support.repositories import ROOT, with_text

EVERY = katas(ROOT, "solutions")
FIRST_SEED = 1
ASK_THE_COMPILER = (Check.COMPILES, Check.COST)
SECTIONS = ("Goal", "Concept", "Shapes", "Try")
MISTAKES = [(kata, mistake) for kata in EVERY for mistake in kata.key.mistakes]

each = pytest.mark.parametrize("exercise", EVERY, ids=lambda kata: kata.name)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        seeds = [int(seed) for seed in str(metafunc.config.getoption("--seeds")).split(",")]
        metafunc.parametrize("seed", seeds, ids=lambda seed: f"seed{seed}")


@each
def test_stub_is_todo(exercise: Kata, grader: Grader, tmp_path: Path) -> None:
    stub = with_text(exercise, tmp_path, exercise.shipped())
    assert stub.untouched(), f"{exercise.path.name}: its stub counts as edited"
    grade = grader.grade(stub, draw(stub.id, stub.key, FIRST_SEED)[0], 60)
    # The given code of a debugging kata runs, and has to be wrong.
    wanted = State.FAILED if exercise.key.debugging else State.TODO
    told = grade.finding.message if grade.finding else "no finding"
    assert grade.state is wanted, f"the stub is {grade.state.value}, not {wanted.value}: {told}"


@each
def test_solution_earns_every_star(
    exercise: Kata, seed: int, grader: Grader, tmp_path: Path
) -> None:
    """On the seeds of --seeds."""
    solved = with_text(exercise, tmp_path, exercise.solution.read_text())
    for case in draw(solved.id, solved.key, seed):
        grade = grader.grade(solved, case, 60)
        assert grade.finding is None, f"{case}: {grade.finding}"
        assert grade.stars == MOST_STARS, f"{case}: the solution earns {grade.stars} stars"
        if not solved.key.kernel:
            assert grade.cost is None, f"{case}: kernel = false, but there is a kernel's cost"
            continue
        assert grade.unchecked == compiler.why_not()
        if not grade.unchecked:  # with the compiler there is a time, and it is par's own
            assert grade.cost, f"{case}: nothing is known of what the solution costs"
            assert grade.cost.cycles, f"{case}: the solution has no predicted time"
            assert grade.cost.cycles == grade.cost.par_cycles, f"{case}: par is not the solution"


def mistaken(exercise: Kata, mistake: Mistake) -> str:
    """The solution with the mistake made, inside its regions."""
    text = exercise.solution.read_text()
    lines = text.splitlines(keepends=True)
    parts = ["".join(lines[region.begin : region.end - 1]) for region in regions(text)]
    count = sum(part.count(mistake.old) for part in parts)
    file = f"{exercise.key_path.name}, mistake {mistake.title!r}"
    assert count == 1, f"{file}: old stands {count} times in the solution's regions, not once"
    part = next(part for part in parts if mistake.old in part)
    return text.replace(part, part.replace(mistake.old, mistake.new))


@pytest.mark.parametrize(
    ("exercise", "mistake"),
    MISTAKES,
    ids=[
        re.sub(r"\W+", "-", f"{k.name}-{m.caught.value}-{m.title}").replace("kata", "exercise")
        for k, m in MISTAKES
    ],
)
def test_mistake_is_rejected(
    exercise: Kata, mistake: Mistake, grader: Grader, tmp_path: Path
) -> None:
    if mistake.caught in ASK_THE_COMPILER and (reason := compiler.why_not()):
        pytest.skip(reason)
    wrong = with_text(exercise, tmp_path, mistaken(exercise, mistake))
    heard = []
    for case in draw(wrong.id, wrong.key, FIRST_SEED):
        grade = grader.grade(wrong, case, 60)
        finding = grade.finding
        if finding is None:
            continue
        heard.append(f"{finding.check.value}: {finding.phrase}\n{finding.message}")
        words = " ".join(heard[-1].lower().split())
        if finding.check is mistake.caught and mistake.says.lower() in words:
            slow = finding.check is Check.COST
            solved = slow and not wrong.key.par_required
            assert grade.state is (State.PASSED if solved else State.FAILED)
            assert grade.stars == 2 if slow else grade.stars < 2
            return
    wanted = f"{exercise.key_path.name}: {mistake.title!r} is not caught by {mistake.caught.value}"
    wanted = f"{wanted} with the words {mistake.says!r}"
    pytest.fail(
        f"{wanted}, but is told:\n\n" + "\n\n".join(heard)
        if heard
        else f"{wanted}: it passes every hidden case"
    )


@each
def test_file_equals_its_blanked_solution(exercise: Kata) -> None:
    """The generated stub, or in a learner's clone an attempt with the same text around it."""
    outcomes = {result.kata: result.outcome for result in sync(ROOT, check=True)}
    assert outcomes[exercise] in (Synced.SAME, Synced.REFUSED), "run: kata sync"


@each
def test_key_holds_hints_and_mistakes(exercise: Kata) -> None:
    key = exercise.key
    file = exercise.key_path.name
    titles = [mistake.title for mistake in key.mistakes]
    assert len(set(key.hints)) == len(key.hints), f"{file}: two hints are the same"
    assert len(titles) >= 3, f"{file}: {len(titles)} mistakes, at least 3 are needed"
    assert len(set(titles)) == len(titles), f"{file}: two mistakes have the same title"
    assert len(key.concept) <= 60, f"{file}: concept has {len(key.concept)} characters, at most 60"


@each
def test_docstring_teaches(exercise: Kata) -> None:
    docstring = ast.get_docstring(ast.parse(exercise.solution.read_text()), clean=False)
    file = exercise.solution.name
    assert docstring, f"{file} has no docstring"
    lines = docstring.splitlines()
    assert 20 <= len(lines) <= 60, f"{file}: a docstring of {len(lines)} lines, not 20 to 60"
    headings = [line for line in lines if line in SECTIONS]
    assert headings == list(SECTIONS), f"{file}: sections {headings}, not {list(SECTIONS)}"
    for command in (f"pytest -k {exercise.name}", f"kata hint {exercise.name}"):
        assert command in docstring, f"{file}: the docstring does not say {command!r}"
    longest = max(map(len, lines))
    assert longest <= 100, f"{file}: a line of {longest} characters in the docstring, at most 100"


@each
def test_docstring_and_hints_do_not_spoil(exercise: Kata) -> None:
    """No line of the solution stands in the docstring."""
    text = exercise.solution.read_text()
    docstring = ast.get_docstring(ast.parse(text)) or ""
    code = [line.strip() for region in regions(text) for line in region.body.splitlines()]
    spoiled = [line for line in code if len(line) > 40 and line in docstring]
    assert not spoiled, f"{exercise.solution.name}: the docstring gives away {spoiled[0]!r}"


@each
def test_file_names_what_it_should(exercise: Kata) -> None:
    """The parts that the grader and the reader expect, and no import beyond the three."""
    tree = ast.parse(exercise.shipped())
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    file = exercise.solution.name
    lacking = {f"{exercise.name}_spec", exercise.name, exercise.test} - functions
    assert not lacking, f"{file} defines no {', '.join(sorted(lacking))}"
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [a.name for a in node.names]
        )
    }
    strange = imported - {"jax", "jaxtyping", "beartype"}
    assert not strange, f"{file} imports {', '.join(sorted(strange))}"
    keywords = {node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword)}
    assert "interpret" not in keywords, f"{file} says interpret=, which the grader chooses"


def test_numbers_have_no_gaps() -> None:
    for track in {kata.track for kata in EVERY}:
        numbers = [int(kata.number) for kata in EVERY if kata.track == track]
        assert numbers == list(range(1, len(numbers) + 1)), f"{track} has the numbers {numbers}"


def test_every_key_names_a_solution() -> None:
    for file in (ROOT / "solutions").glob("*/*.toml"):
        assert file.with_suffix(".py").exists(), f"{file.name} has no solution beside it"
        keys.load(file)


def test_no_launch_may_call_its_spec(grader: Grader, tmp_path: Path) -> None:
    """Where there is no kernel to ask for, the spec itself would be a right answer."""
    plain = next(kata for kata in EVERY if not kata.key.kernel)
    spec = f"return {plain.name}_spec(*arrays, **sizes)"
    text = re.sub(
        rf"def {plain.name}\([\s\S]*?(?=\n\n\ndef test_)",
        f"def {plain.name}(*arrays, **sizes):\n    {spec}",
        plain.solution.read_text(),
    )
    called = with_text(plain, tmp_path, text)
    grade = grader.grade(called, draw(called.id, called.key, FIRST_SEED)[0], 60)
    assert grade.state is State.FAILED
    assert grade.finding
    assert f"it calls {plain.name}_spec" in grade.finding.message
