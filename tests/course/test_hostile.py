"""Hostile files: none gets a star that it has not earned, and each is told what is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grader.exercise.cases import draw
from grader.exercise.catalog import katas
from grader.grading.grader import Grader
from grader.sandbox.isolation import Isolation, level
from grader.verdict import Grade, State
from pallascope.model import Check
from tests.support import hostile, hostile_launches, hostile_machine
from tests.support.hostile import Hostile
from tests.support.repositories import ROOT, with_text

KATA = next(kata for kata in katas(ROOT, "solutions") if kata.name == "constant_add")
CASE = draw(KATA.id, KATA.key, 1)[0]

confined = pytest.mark.skipif(
    not level(Isolation.AUTO).isolated, reason="this machine offers no isolation"
)


def graded(grader: Grader, folder: Path, one: Hostile) -> Grade:
    """The grade of constant_add with this text in the place of its kernel and launch."""
    source = KATA.solution.read_text()
    own = re.search(r"def constant_add_kernel[\s\S]*?(?=\n\n\ndef test_)", source)
    assert own
    return grader.grade(
        with_text(KATA, folder, source.replace(own[0], one.source)), CASE, one.seconds
    )


def told(grader: Grader, folder: Path, one: Hostile) -> None:
    """Grades a file, and compares with what must be said of it."""
    grade = graded(grader, folder, one)
    assert (grade.state, grade.stars) == (one.state, one.stars), grade
    if one.check is None:
        return
    assert grade.finding
    assert grade.finding.check is one.check, grade.finding
    assert one.says in f"{grade.finding.phrase}\n{grade.finding.message}"


def test_a_patched_method_of_the_graders_own(grader: Grader, tmp_path: Path) -> None:
    told(grader, tmp_path, hostile.PATCHED_METHOD)


def test_hidden_values_are_not_there_to_be_found(grader: Grader, tmp_path: Path) -> None:
    told(grader, tmp_path, hostile.HIDDEN_VALUES)


@pytest.mark.parametrize("one", hostile_launches.FACES, ids=lambda one: one.name)
def test_a_launch_of_two_faces(one: Hostile, grader: Grader, tmp_path: Path) -> None:
    """It shows one of them to all who ask: what is right in it no TPU takes, or it is not right."""
    grade = graded(grader, tmp_path, one)
    assert grade.state is State.FAILED
    assert grade.finding
    assert (grade.finding.check, grade.stars) in ((Check.VALUES, 0), (Check.LOWERS, 1))


def test_a_trace_of_two_faces(grader: Grader, tmp_path: Path) -> None:
    told(grader, tmp_path, hostile_launches.BY_PLATFORM)


def test_a_silenced_race(grader: Grader, tmp_path: Path) -> None:
    told(grader, tmp_path, hostile.SILENCED_RACE)


@pytest.mark.parametrize("one", hostile.FORGED_TRACES, ids=lambda one: one.name)
def test_a_forged_trace(one: Hostile, grader: Grader, tmp_path: Path) -> None:
    told(grader, tmp_path, one)


@pytest.mark.parametrize("one", hostile.ANSWERS, ids=lambda one: one.name)
def test_a_forged_answer(one: Hostile, grader: Grader, tmp_path: Path) -> None:
    told(grader, tmp_path, one)


@pytest.mark.parametrize("one", hostile.PATCHES, ids=lambda one: one.name)
def test_a_patch(one: Hostile, grader: Grader, tmp_path: Path) -> None:
    told(grader, tmp_path, one)


@confined
@pytest.mark.parametrize("one", hostile_machine.REACHES, ids=lambda one: one.name)
def test_the_rest_of_the_machine(one: Hostile, grader: Grader, tmp_path: Path) -> None:
    told(grader, tmp_path, one)


@pytest.mark.parametrize("one", hostile_launches.EDGES, ids=lambda one: one.name)
def test_an_edge_where_a_tpu_differs(one: Hostile, grader: Grader, tmp_path: Path) -> None:
    told(grader, tmp_path, one)


@pytest.mark.parametrize("one", hostile_launches.LAUNCHES, ids=lambda one: one.name)
def test_a_launch_that_does_not_do_the_work(one: Hostile, grader: Grader, tmp_path: Path) -> None:
    told(grader, tmp_path, one)


def test_after_all_of_them_an_honest_file_is_graded(grader: Grader, tmp_path: Path) -> None:
    told(grader, tmp_path, hostile_machine.HONEST)
