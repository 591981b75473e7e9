"""New katas of each kind: their keys can be read, and their solutions are right."""

from __future__ import annotations

import pytest

from grader.exercise.cases import draw
from grader.exercise.keys import Kind
from grader.exercise.mistakes import wrong_version
from grader.exercise.repository import new
from grader.exercise.unwritten import unwritten
from grader.grading.grader import Grader
from grader.model import Check, State
from tests.support.repositories import Repository


@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.name.lower())
def test_a_new_one_is_of_its_kind(kind: Kind, repository: Repository) -> None:
    made = new(repository.root, "2_fusion/row_softmax", kind)
    assert made.key.kind is kind
    assert made.untouched()
    wrong_version(made.solution.read_text(), made.key.mistakes[0])
    left = {part for file in unwritten(repository.root) for part in file.parts}
    assert {"row_softmax_spec", "row_softmax_kernel", "after"} <= left
    assert ("stub" in left) is (kind is Kind.CASE_FILE)
    assert ("todo" in left) is (kind is not Kind.CASE_FILE)


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        (Kind.PREDICTIONS, Check.PREDICTIONS),
        (Kind.TEST, Check.PLANTED),
        (Kind.TABLES, Check.VALUES),
    ],
    ids=["predictions", "test", "tables"],
)
def test_a_new_one_can_be_graded(
    kind: Kind, check: Check, repository: Repository, grader: Grader
) -> None:
    made = new(repository.root, "2_fusion/row_softmax", kind)
    cases = [case for case in draw(made.id, made.key, 1) if not case.production]
    assert grader.grade(made, cases[0], 60).state is State.TODO
    made.path.write_text(made.solution.read_text())
    assert grader.grade(made, cases[0], 60).stars == 3
    made.path.write_text(wrong_version(made.path.read_text(), made.key.mistakes[0]))
    found = [grader.grade(made, case, 60).finding for case in cases]
    assert any(finding and finding.check is check for finding in found), found
