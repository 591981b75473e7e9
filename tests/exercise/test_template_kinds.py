"""New katas of each kind: their keys can be read, and their solutions are right."""

from __future__ import annotations

import pytest

from grader.exercise.cases import draw
from grader.exercise.key_tables import KataKind
from grader.exercise.mutants import wrong_version
from grader.exercise.readmes import template_leftovers
from grader.exercise.repository import new_kata
from grader.grading.grader import Grader
from grader.verdict import State
from pallascope.model import Check
from tests.support.repositories import Repository


@pytest.mark.parametrize("kind", KataKind, ids=lambda kind: kind.name.lower())
def test_a_new_one_is_of_its_kind(kind: KataKind, repository: Repository) -> None:
    made = new_kata(repository.root, "2_fusion/row_softmax", kind)
    assert made.key.kind is kind
    assert made.untouched()
    wrong_version(made.solution.read_text(), made.key.mistakes[0])
    left = {part for file in template_leftovers(repository.root) for part in file.parts}
    assert {"row_softmax_spec", "row_softmax_kernel", "after"} <= left
    assert ("stub" in left) is (kind is KataKind.CASE_FILE)
    assert ("todo" in left) is (kind is not KataKind.CASE_FILE)


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        (KataKind.PREDICTIONS, Check.PREDICTIONS),
        (KataKind.TEST, Check.PLANTED),
        (KataKind.TABLES, Check.VALUES),
    ],
    ids=["predictions", "test", "tables"],
)
def test_a_new_one_can_be_graded(
    kind: KataKind, check: Check, repository: Repository, grader: Grader
) -> None:
    made = new_kata(repository.root, "2_fusion/row_softmax", kind)
    cases = [case for case in draw(made.id, made.key, 1) if not case.production]
    assert grader.grade(made, cases[0], 60).state is State.TODO
    made.path.write_text(made.solution.read_text())
    assert grader.grade(made, cases[0], 60).stars == 3
    made.path.write_text(wrong_version(made.path.read_text(), made.key.mistakes[0]))
    found = [grader.grade(made, case, 60).finding for case in cases]
    assert any(finding and finding.check is check for finding in found), found
