"""Lines of JSON: submissions, or what is wrong with them."""

from __future__ import annotations

import codecs
import io
import json

import pytest

from grader.batch.evaluation import task
from grader.batch.samples import (
    Complaint,
    NoSample,
    Sample,
    lines_of,
    read,
    source_of,
)
from grader.exercise.catalog import Kata, katas
from pallascope.tools.regions import region_lines, regions
from tests.support.repositories import ROOT

EVERY = {kata.id: kata for kata in katas(ROOT, "solutions")}
ONE = next(kata for kata in EVERY.values() if kata.name == "constant_add")
SEVERAL = next(kata for kata in EVERY.values() if len(kata.key.fillings) > 1)
RIGHT = "o_ref[...] = x_ref[...] + 10"


def line(**row: object) -> bytes:
    return json.dumps(row).encode()


def solution(kata: Kata = ONE) -> str:
    return kata.solution.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "completion",
    [
        solution(),
        RIGHT,
        f"    {RIGHT}\n",
        f"    # BEGIN SOLUTION\n    {RIGHT}\n    # END SOLUTION\n",
        [RIGHT],
        f"\r\n    {RIGHT}\r\n",
    ],
    ids=("whole", "body", "indented", "markers", "list", "carriage-returns"),
)
def test_a_completion_is_a_file_or_what_fills_its_regions(completion: object) -> None:
    assert source_of(ONE, {"completion": completion}) == solution()


def test_several_regions_are_filled_in_order() -> None:
    whole = solution(SEVERAL)
    bodies = [region.body for region in regions(whole)]
    assert [r.body for r in regions(source_of(SEVERAL, {"completion": bodies}))] == bodies
    with pytest.raises(NoSample, match="fills 1 solution regions"):
        source_of(SEVERAL, {"completion": bodies[0]})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"{", "line 2: isn't valid JSON (Expecting property name"),
        (b"[" * 100_000, "line 2: isn't readable JSON"),
        (b"[" * 10_000 + b"]" * 10_000, "line 2: isn't readable JSON (brackets are nested"),
        (b'{"x": NaN}', "line 2: isn't readable JSON (Out of range float values"),
        (b"\0\0", "line 2: isn't valid JSON (Expecting value at character 1)"),
        (b"\xff", "line 2: isn't UTF-8"),
        (b"[]", "line 2: isn't a JSON object, but a list"),
        (b"null", "line 2: isn't a JSON object, but null"),
        (line(completion="x"), 'line 2: has no "task_id"'),
        (line(task_id=3, completion="x"), 'line 2: "task_id" is a number'),
        (line(task_id=ONE.id[:-1], completion="x"), f"did you mean {ONE.id}"),
        (line(task_id=ONE.id, completion=RIGHT, id="a"), 'has the same "id" as line 1: "a"'),
    ],
    ids=range(12),
)
def test_a_bad_line_is_told_and_the_others_are_read(text: bytes, says: str) -> None:
    good = line(task_id=ONE.id, completion=RIGHT, id="a"), line(task_id=ONE.id, completion=RIGHT)
    found = list(read((good[0], text, b"\n", good[1]), EVERY))
    assert [type(one) for one in found] == [Sample, Complaint, Sample]
    _, bad, last = found
    assert says in str(bad)
    assert last.line == 4


def test_what_editors_add_to_a_file_does_no_harm() -> None:
    """A byte order mark, carriage returns, blank lines, no end of the last line."""
    good = line(task_id=ONE.id, completion=RIGHT)
    text = codecs.BOM_UTF8 + good + b"\r\n\r\n  \n" + good
    found = list(read(text.splitlines(keepends=True), EVERY))
    assert [one.source is not None for one in found if isinstance(one, Sample)] == [True, True]
    assert [one.line for one in found] == [1, 4]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({}, 'has no "completion"'),
        ({"completion": " \n"}, "the completion is empty"),
        ({"completion": []}, "the completion is empty"),
        ({"completion": None}, '"completion" is null'),
        ({"completion": ["x", 1]}, '"completion" is a number'),
        ({"completion": "x" * 10_000_000}, "the completion has 10,000,000 bytes"),
        ({"completion": "# BEGIN SOLUTION\nx"}, "markers do not pair up"),
        ({"completion": "# BEGIN SOLUTION\nx\n# END SOLUTION\n" * 2}, "fills 2 solution regions"),
    ],
    ids=range(8),
)
def test_a_bad_completion_counts_as_a_wrong_answer(row: dict[str, object], why: str) -> None:
    (found,) = read([line(task_id=ONE.id, **row)], EVERY)
    assert isinstance(found, Sample)
    assert found.source is None
    assert why in found.why


@pytest.mark.parametrize("exercise", EVERY.values(), ids=lambda kata: kata.name)
def test_a_task_gives_nothing_away(exercise: Kata) -> None:
    kata, found = exercise, task(exercise, "v5e")
    text = json.dumps(found)
    assert kata.stub_text() in found["prompt"]
    assert found["regions"] == len(kata.key.fillings)
    shipped = set(kata.stub_text().split("\n"))
    answers = [row for body in region_lines(solution(kata)) for row in body if row not in shipped]
    assert answers
    assert not [row for row in answers if len(row.strip()) > 40 and row in found["prompt"]]
    assert not [hint for hint in kata.key.hints if json.dumps(hint)[1:-1] in text]
    assert not [mistake.title for mistake in kata.key.mistakes if mistake.title in text]


def test_a_line_that_is_too_long_is_reported_and_the_next_ones_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("grader.batch.samples.MOST_LINE", 1000)
    good = line(task_id=ONE.id, completion=RIGHT)
    file = io.BytesIO(b"\n".join([b"x" * 1_000_000, good, b"y" * 1001, good, b"z" * 5000]))
    lines = list(lines_of(file))
    assert max(map(len, lines)) == 1001
    first, second, third, fourth, fifth = read(lines, EVERY)
    assert [type(one) for one in (second, fourth)] == [Sample, Sample]
    for number, one in ((1, first), (3, third), (5, fifth)):
        assert str(one) == f"line {number}: has more than 1,000 bytes"
