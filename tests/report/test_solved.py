"""What is said of a kata once it is solved, and how its cost is compared."""

from __future__ import annotations

import pytest

from grader.exercise.catalog import Kata
from grader.report.completion import (
    MAX_TEXTS,
    compare_grades,
    cost_comparison,
    newly_solved,
    solved_text,
)
from grader.verdict import Cost, Grade, State
from pallascope.tools.text import render_text
from tests.support.repositories import Repository

WORDS = "word " * 19 + "word\n"
TEXT = f"{WORDS}{WORDS}\nVary it:\n    kata cost double N=256 and a line that is wide\n\nThe end."
KEY = Repository.KEY.replace("count", f'after = """\n{TEXT}\n"""\ncount')


@pytest.fixture
def double(repository: Repository) -> Kata:
    return repository.add("double", key=KEY)


def shown(kata: Kata, more: str = "", width: int = 60) -> list[str]:
    text = solved_text(kata, more)
    assert text is not None
    return render_text(text, width, False).splitlines()


def test_paragraphs_flow_and_commands_stay(double: Kata) -> None:
    lines = shown(double, "Yours is fine.")
    assert lines[0] == "solved    double  doubling"
    assert lines[1] == "  " + " ".join(["word"] * 11)
    assert lines[5:] == [
        "",
        "  Vary it:",
        "      kata cost double N=256 and a line that is wide",
        "",
        "  The end.",
        "",
        "  Yours is fine.",
    ]
    assert "      kata cost double N=256 and a line that is wide" in shown(double, width=40)


def test_without_a_text_there_is_nothing_to_say(repository: Repository) -> None:
    kata = repository.add("bare")
    assert solved_text(kata) is None
    assert list(newly_solved([kata], [], quiet=False)) == []
    kata.key_path.write_text("broken")
    assert solved_text(Kata(kata.root, kata.track, kata.stem)) is None


def test_of_many_only_the_command_is_named(repository: Repository) -> None:
    katas = [repository.add(f"k{n}", number=n + 1, key=KEY) for n in range(MAX_TEXTS + 1)]
    (line,) = newly_solved(katas, [], quiet=False)
    assert "kata after k0" in render_text(line, 100, False)
    assert len(list(newly_solved(katas[:MAX_TEXTS], [], quiet=False))) == MAX_TEXTS
    assert list(newly_solved(katas, [], quiet=True)) == []


@pytest.mark.parametrize(
    ("moved", "takes", "expected"),
    [
        ((104, 100), (98, 100), "moves 1.04 times the bytes of the reference solution and is pre"),
        ((104, 100), (98, 100), "at 0.98 of its time."),
        ((100, 100), (100, 100), "Yours moves the same bytes as the reference solution, in the sa"),
        ((50, 100), (None, 100), "Yours moves 0.50 times the bytes of the reference solution."),
        ((50, None), (90, 100), "Yours is predicted at 0.90 times the reference solution's time."),
    ],
)
def test_costs_are_compared(
    moved: tuple[int | None, int | None], takes: tuple[int | None, int | None], expected: str
) -> None:
    assert expected in cost_comparison(moved, takes)


def test_the_last_case_is_compared() -> None:
    """That of production size, where par is judged."""
    grades = [
        Grade("k", case, State.PASSED, 3, cost=Cost("v5e", 2 + case, 2, 5, 5)) for case in (0, 2, 1)
    ]
    assert "2.00 times the bytes" in compare_grades(grades)
    assert compare_grades([]) == ""
    assert compare_grades([Grade("k", 0, State.PASSED, 2)]) == ""
    assert cost_comparison((None, 1), (1, None)) == ""
