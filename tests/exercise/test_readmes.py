"""The tables of katas and tracks in the READMEs, and what of them is their author's."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.exercise import readmes
from grader.exercise.repository import new_kata
from tests.support.repositories import Repository

ABOVE = "# 1_first: from one to two\n\nThis track has no katas. Of which one is mine.\n\n"
TABLE = "<!-- BEGIN KATAS: written by kata sync -->\n<!-- END KATAS -->\n"
BELOW = "\n| | mine |\n|---|---|\n| 01 | kept |\n"
TRACKS = """Before.

<!-- BEGIN TRACKS: written by kata sync -->

| track | what you write | |
|---|---|---|
| [0_gone](0_gone/README.md) | what is no longer there | 3 katas |
| 2_second | things of the second kind | coming |
| 12_twelfth | the last | coming |

<!-- END TRACKS -->

After.
"""


class Course:
    """A repository of one track with two katas, with all three kinds of README."""

    def __init__(self, repository: Repository) -> None:
        self.root = repository.root
        self.repository = repository
        repository.add("double", number=1)
        repository.add("row_sum", number=2)
        self.track = self.root / "katas/1_first/README.md"
        self.track.write_text(ABOVE + TABLE + BELOW)
        self.overview = self.root / "katas/README.md"
        self.overview.write_text(TRACKS)
        self.top = self.root / "README.md"
        self.top.write_text(TRACKS.replace("2_second", "[2_second](x)"))

    def sync(self) -> tuple[Path, ...]:
        return readmes.sync(self.root, check=False)


@pytest.fixture
def course(repository: Repository) -> Course:
    return Course(repository)


def test_a_tracks_table_is_what_the_keys_say(course: Course) -> None:
    course.sync()
    assert course.track.read_text() == (
        "# 1_first: from one to two\n\nThis track has two katas. Of which one is mine.\n\n"
        "<!-- BEGIN KATAS: written by kata sync -->\n\n"
        "| | kata | you write | new idea |\n"
        "|---|---|---|---|\n"
        "| 01 | [double](kata_01_double.py) | kernel | doubling |\n"
        "| 02 | [row_sum](kata_02_row_sum.py) | kernel | doubling |\n\n"
        "<!-- END KATAS -->\n" + BELOW
    )


def test_the_tracks_stand_in_order_with_those_to_come(course: Course) -> None:
    course.repository.add("row_max", track="10_tenth")
    course.sync()
    assert course.overview.read_text() == (
        "Before.\n\n<!-- BEGIN TRACKS: written by kata sync -->\n\n"
        "| track | what you write | |\n"
        "|---|---|---|\n"
        "| [1_first](1_first/README.md) | from one to two | 2 katas |\n"
        "| 2_second | things of the second kind | coming |\n"
        "| [10_tenth](10_tenth/README.md) |  | 1 kata |\n"
        "| 12_twelfth | the last | coming |\n\n"
        "<!-- END TRACKS -->\n\nAfter.\n"
    )


def test_links_lead_from_where_the_table_stands(course: Course) -> None:
    course.sync()
    text = course.top.read_text()
    assert "| [1_first](katas/1_first/README.md) | from one to two | 2 katas |" in text


def test_what_differs_is_told_and_only_written_when_asked(course: Course) -> None:
    before = course.track.read_text()
    every = {course.top, course.overview, course.track}
    assert set(readmes.sync(course.root, check=True)) == every
    assert course.track.read_text() == before
    assert set(course.sync()) == every
    assert readmes.sync(course.root, check=True) == ()
    text = course.track.read_text()
    course.track.write_text(text.replace("two katas", "three katas"))
    assert readmes.sync(course.root, check=True) == (course.track,)


def test_readmes_without_markers_or_none_at_all_are_left_alone(course: Course) -> None:
    course.top.unlink()
    course.overview.write_text("This track has nine katas, it says, but this is no track.\n")
    course.track.write_text("# 1_first\n")
    assert course.sync() == ()
    assert not course.top.exists()


@pytest.mark.parametrize(
    ("concept", "shown"),
    [
        ("Refs: load with [...], store with [...] =", "load with `[...]`, store with `[...] =`"),
        ("pl.when alone: two.deep.names", "`pl.when` alone: `two.deep.names`"),
        ("scratch_shapes and BlockSpec: None", "`scratch_shapes` and `BlockSpec`: `None`"),
        ("Refs. Then a pipe | in it", "Refs. Then a pipe \\| in it"),
    ],
)
def test_names_are_set_as_code(course: Course, concept: str, shown: str) -> None:
    key = course.root / "solutions/1_first/kata_01_double.toml"
    key.write_text(key.read_text().replace('"doubling"', f'"{concept}"'))
    course.sync()
    assert shown in course.track.read_text()


def test_more_exercises_than_have_a_word_are_counted_in_digits(course: Course) -> None:
    for number in range(3, 22):
        course.repository.add(f"more_{number}", number=number)
    course.sync()
    assert "This track has 21 katas." in course.track.read_text()


# ---- a new track ----


def test_a_new_track_gets_the_readme_of_the_template(course: Course) -> None:
    new_kata(course.root, "3_third/softmax")
    readmes.create_track_readme(course.root, "3_third")
    course.sync()
    text = (course.root / "katas/3_third/README.md").read_text()
    assert text.startswith("# 3_third: say in a few words where it leads\n")
    assert "This track has one kata. " in text
    assert "| 01 | [softmax](kata_01_softmax.py) |" in text
    assert "](3_third/README.md)" in course.overview.read_text()


def test_a_new_track_keeps_what_was_said_of_it(course: Course) -> None:
    new_kata(course.root, "2_second/softmax")
    readmes.create_track_readme(course.root, "2_second")
    course.sync()
    text = (course.root / "katas/2_second/README.md").read_text()
    assert text.startswith("# 2_second: things of the second kind\n")
    row = "| [2_second](2_second/README.md) | things of the second kind | 1 kata |"
    assert row in course.overview.read_text()
    assert "coming |\n" in course.overview.read_text()


def test_a_readme_that_is_there_is_not_begun_again(course: Course) -> None:
    readmes.create_track_readme(course.root, "1_first")
    assert course.track.read_text() == ABOVE + TABLE + BELOW
