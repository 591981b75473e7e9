"""No text makes a regular expression of the grader search for long."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from pallascope.checks.exception_advice import exception_advice
from pallascope.model import Problem, SourceLine, Stage
from pallascope.runs.questions import KIND_LIMIT, MESSAGE_LIMIT
from tests.support.regular_expressions import Search, every_search, worst_cases

#: Where texts are as long as a file: submissions, answers, ledgers.
OF_FILES = ("batch", "classroom", "plugin", "record", "report", "sandbox", "tools", "updates")
FILE = 100_000  # characters: a search that takes the square of that takes minutes
EXCEPTION = KIND_LIMIT + MESSAGE_LIMIT  # the square of that takes less than a second
CPU_SECONDS = 5.0  # for what else takes microseconds
SEARCHES = every_search()


class TooSlow(Exception):
    """A search used up its CPU time."""


@pytest.fixture(autouse=True)
def limited() -> Iterator[None]:
    """A search that takes too much CPU time raises TooSlow: Python asks for signals meanwhile."""

    def raise_too_slow(*_: object) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGVTALRM, raise_too_slow)
    yield
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.signal(signal.SIGVTALRM, before)


def too_slow(search: Search, length: int) -> str:
    """The pattern, and the text of about that length that it is slow on; "" where there is none."""
    for text in worst_cases(search.pattern, length):
        signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS)
        try:
            search.of(text)
        except TooSlow:
            return f"{search.where}: {search.pattern!r} on {text[:40]!r}…{text[-40:]!r}"
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return ""


def test_patterns_are_found() -> None:
    found = {search.pattern for search in SEARCHES}
    assert len(found) > 250
    assert r"^ModuleNotFoundError" in found  # of a table
    assert r"^ *(?:ROOT )?%?([\w.\-]+) = (\(.*?\)|\S+) ([\w\-]+)\((.*)$" in found  # compiled
    assert any(search.pattern.startswith(r"def\s+") for search in SEARCHES)  # made at run time


@pytest.mark.parametrize("pattern", [r"(a+)+b", r"a[\s\S]*b[\s\S]*c[\s\S]*d"])
def test_slow_patterns_are_noticed(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.CPU_SECONDS", 0.5)
    assert too_slow(Search(pattern, "search", "here"), EXCEPTION)


@pytest.mark.parametrize("room", sorted({search.where.split(".")[1] for search in SEARCHES}))
def test_no_text_of_an_exception_makes_a_pattern_slow(room: str) -> None:
    searches = [search for search in SEARCHES if search.where.split(".")[1] == room]
    assert [slow for search in searches if (slow := too_slow(search, EXCEPTION))] == []


def test_no_file_makes_a_pattern_slow_that_files_are_searched_for() -> None:
    searches = [search for search in SEARCHES if search.where.split(".")[1] in OF_FILES]
    assert [slow for search in searches if (slow := too_slow(search, FILE))] == []


def test_an_exception_that_looks_like_a_slice_in_many_places_gets_advice_at_once() -> None:
    text = ("static start" * 100 + "\n" + "[" * 4000 + ":" * 4000)[:MESSAGE_LIMIT]
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS)
    exception_advice(Problem(Stage.TRACE, "ValueError", text, SourceLine(1, "[" * 250 + ":" * 250)))
    slice = Problem(Stage.TRACE, "TypeError", "static start", SourceLine(1, "x = x_ref[i : i + 8]"))
    assert exception_advice(slice).startswith("A slice needs a size")
