"""Reads a file of samples: one JSON object per line."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

from grader.batch.completions import NoSample, json_kind, source_of
from grader.exercise.catalog import MAX_GRADED_BYTES, Kata
from pallascope.tools.text import did_you_mean

TASK, ID = "task_id", "id"
#: Most bytes of a line. JSON may write each byte of a file as six.
MOST_LINE = 16 * MAX_GRADED_BYTES


def lines_of(file: IO[bytes]) -> Iterator[bytes]:
    """The lines of a file, each cut one byte after MOST_LINE."""
    while line := file.readline(MOST_LINE + 1):
        yield line
        while len(line) > MOST_LINE and not line.endswith(b"\n"):
            line = file.readline(MOST_LINE + 1)


@dataclass(frozen=True, slots=True)
class Sample:
    """One line: its number from 1, its object, the id of its kata, and the whole file.

    If the completion can't be used, `source` is None, and `why` has the reason: it counts as a
    wrong answer.
    """

    line: int
    row: dict[str, Any]
    kata: str
    source: str | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Complaint:
    """An error in one line, which is skipped."""

    line: int
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}"


def read(lines: Iterable[bytes], katas: Mapping[str, Kata]) -> Iterator[Sample | Complaint]:
    """A Sample or a Complaint for each line that isn't blank. `katas` has all katas by id."""
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)  # some editors begin a file with it
        if not line.strip():
            continue
        try:
            row = _row(line)
            kata = _kata(row, katas)
            _demand_new(row, number, seen)
        except NoSample as error:
            yield Complaint(number, str(error))
            continue
        try:
            yield Sample(number, row, kata.id, source_of(kata, row))
        except NoSample as error:
            yield Sample(number, row, kata.id, None, str(error))


def _row(line: bytes) -> dict[str, Any]:
    if len(line) > MOST_LINE:
        raise NoSample(f"has more than {MOST_LINE:,} bytes")
    try:
        row = json.loads(line.decode("utf-8"))
        json.dumps(row, allow_nan=False)  # as it is written to the results
    except UnicodeDecodeError as error:
        raise NoSample(f"isn't UTF-8 ({error.reason} at byte {error.start})") from None
    except json.JSONDecodeError as error:
        raise NoSample(f"isn't valid JSON ({error.msg} at character {error.pos + 1})") from None
    except RecursionError:
        raise NoSample("isn't readable JSON (brackets are nested too deeply)") from None
    except ValueError as error:
        raise NoSample(f"isn't readable JSON ({error})") from None
    if not isinstance(row, dict):
        raise NoSample(f"isn't a JSON object, but {json_kind(row)}")
    return row


def _kata(row: Mapping[str, Any], katas: Mapping[str, Kata]) -> Kata:
    if TASK not in row:
        raise NoSample(f'has no "{TASK}"')
    id = row[TASK]
    if not isinstance(id, str):
        raise NoSample(f'"{TASK}" is {json_kind(id)}, and must be a string')
    if id in katas:
        return katas[id]
    hint = did_you_mean(id[:100], katas)
    raise NoSample(f"unknown task {id[:100]!r}{f'; {hint}' if hint else ''}")


def _demand_new(row: Mapping[str, Any], number: int, seen: dict[str, int]) -> None:
    if ID not in row:
        return
    id = json.dumps(row[ID], sort_keys=True)
    if id in seen:
        raise NoSample(f'has the same "{ID}" as line {seen[id]}: {id[:100]}')
    seen[id] = number
