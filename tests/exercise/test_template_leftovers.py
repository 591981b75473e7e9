"""What of a new kata is still the template's."""

from __future__ import annotations

from pathlib import Path

from grader.exercise import readmes
from grader.exercise.readmes import template_leftovers
from grader.exercise.repository import new_kata
from tests.support.repositories import Repository

SOLUTION = (
    *("the first line", "Goal", "Concept", "Needs", "Read on"),
    *("row_softmax_spec", "row_softmax_kernel"),
)
KEY = ("title", "concept", "write", "todo", "hints", "after", "mistakes (at least three)")
TRACK = ("the heading", "the introduction", "the story")


def parts(root: Path) -> dict[str, tuple[str, ...]]:
    return {each.file.name: each.parts for each in template_leftovers(root)}


def test_of_a_new_one_everything_is(repository: Repository) -> None:
    repository.add("double")
    kata = new_kata(repository.root, "2_fusion/row_softmax")
    assert parts(repository.root) == {kata.solution.name: SOLUTION, kata.key_path.name: KEY}
    readmes.create_track_readme(repository.root, "2_fusion")
    assert parts(repository.root)["README.md"] == TRACK


def test_what_was_written_over_is_not(repository: Repository) -> None:
    kata = new_kata(repository.root, "2_fusion/row_softmax")
    text = kata.solution.read_text()
    text = text.replace("Say in one imperative line what the kernel does.", "Scale by e.")
    text = text.replace("    # write over this\n", "").replace("    # write over this too\n", "")
    kata.solution.write_text(text)
    kata.key_path.write_text(kata.key_path.read_text().replace("its name in words", "Row softmax"))
    found = parts(repository.root)
    assert found[kata.solution.name] == ("Goal", "Concept", "Needs", "Read on")
    assert found[kata.key_path.name] == KEY[1:]


def test_a_finished_one_is_not_listed(repository: Repository) -> None:
    repository.add("double")
    assert template_leftovers(repository.root) == ()
