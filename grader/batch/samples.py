"""Reads a file of samples, one JSON object per line, and finds the code in a model's answer.

Fences are Markdown's: three or more backticks or tildes, and a word for the language. A block ends
at a line with at least as many of the same, or at the end of the answer if the model was cut off.
"""

from __future__ import annotations

import ast
import codecs
import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

from grader.exercise.catalog import MAX_GRADED_BYTES, Kata
from pallascope.tools.regions import (
    BEGIN,
    RegionError,
    fill_dedented,
    regions,
)
from pallascope.tools.text import did_you_mean

# ---- the file ----

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


# ---- the code in an answer ----

COMPLETION = "completion"  # the field of a sample

#: Most characters of bare code (a region's body) that are parsed here. Python's parser takes
#: gigabytes for some longer texts, and this process has no memory limit.
MOST_PARSED = 8 << 10
#: Most characters of an answer, its thoughts included.
MOST_ANSWER = 16 << 20
_OPENING = re.compile(r"([ \t>]*+)(`{3,}+|~{3,}+)[ \t]*+([^\s`]*+)[^`]*+")
_THOUGHTS = re.compile(r"\A.*</think(?:ing)?>", re.DOTALL)
_A_FILE = re.compile(r"\s*(?:\"{3}|'{3}|import\s|from\s+[\w.]+\s+import\s)")
_PYTHON = ("", "python", "python3", "py", "py3")


class NoSample(ValueError):
    """A line can't be graded; the text says why."""


@dataclass(frozen=True, slots=True)
class FencedBlock:
    """A fenced block: its language in lower case, and its lines without the fence's indentation."""

    language: str
    code: str


def source_in(kata: Kata, answer: str) -> str:
    """The whole file that a model's answer amounts to. Raises NoSample with the reason if none."""
    if len(answer) > MOST_ANSWER:
        raise NoSample(f"the answer has more than {MOST_ANSWER:,} characters")
    return source_of(kata, {COMPLETION: completion_in(kata, answer)})


def completion_in(kata: Kata, answer: str) -> str | list[str]:
    """The completion in an answer, as in a sample of `kata grade`.

    Text up to `</think>` is ignored. If there are several Python blocks, the completion is the last
    whole file, else the last block with marker lines, else all blocks if there are as many as the
    kata has regions, else the last block. If nothing is fenced, or the answer begins like a file,
    the completion is the whole answer. Raises NoSample if there are blocks, but none is Python.
    """
    answer = _THOUGHTS.sub("", answer).replace("\r\n", "\n")
    found = () if _A_FILE.match(answer) else tuple(blocks(answer))
    if not found:
        return answer
    codes = [block.code for block in found if block.language in _PYTHON and block.code.strip()]
    if not codes:
        raise NoSample("the answer has code blocks, but none of them is Python")
    for one in reversed(codes):
        if is_whole(kata, one):
            return one
    for one in reversed(codes):
        if BEGIN in one:
            return one
    return codes if 1 < len(codes) == len(regions(kata.stub_text())) else codes[-1]


def is_code(answer: str) -> bool:
    """Whether an answer has a code block or is code, right or wrong."""
    answer = _THOUGHTS.sub("", answer)
    if _A_FILE.match(answer) or next(blocks(answer), None):
        return True
    if len(answer) > MOST_PARSED:
        return False
    try:
        return bool(ast.parse(textwrap.dedent(answer)).body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def blocks(text: str) -> Iterator[FencedBlock]:
    """The fenced blocks of a text, in order."""
    lines = iter(text.split("\n"))  # splitlines would also split at form feeds
    for line in lines:
        if opening := _OPENING.fullmatch(line.rstrip()):
            indent, fence, language = opening.groups()
            inner = list(_until(fence, lines))
            yield FencedBlock(
                language.lower(), "".join(f"{each}\n" for each in _outdented(inner, indent))
            )


def _until(fence: str, lines: Iterator[str]) -> Iterator[str]:
    closing = re.compile(rf"[ \t>]*{re.escape(fence)}{re.escape(fence[0])}*[ \t\r]*")
    for line in lines:
        if closing.fullmatch(line):
            return
        yield line


def _outdented(lines: Iterable[str], indent: str) -> Iterator[str]:
    """The lines without the prefix of their fence: a list's indentation, or a quote's mark."""
    for line in lines:
        if line.startswith(indent):
            yield line[len(indent) :]
        elif line.startswith(indent.rstrip()):  # a quote's empty line
            yield line[len(indent.rstrip()) :]
        else:
            yield line


# ---- completions ----


def source_of(kata: Kata, row: Mapping[str, Any]) -> str:
    """The whole file that a row's completion amounts to. Raises NoSample.

    A completion is a whole file, or the body of the kata's only region, or a list with a body for
    each region, or a text that has each body between its marker lines.
    """
    if COMPLETION not in row:
        raise NoSample(f'has no "{COMPLETION}"')
    completion = row[COMPLETION]
    parts = completion if isinstance(completion, list) else [completion]
    for part in parts:
        if not isinstance(part, str):
            raise NoSample(f'"{COMPLETION}" is {json_kind(part)}, and must be a string')
    size = sum(len(part.encode("utf-8", "surrogatepass")) for part in parts)
    if size > MAX_GRADED_BYTES:
        raise NoSample(
            f"the completion has {size:,} bytes; at most {MAX_GRADED_BYTES:,} are graded"
        )
    if not any(part.strip() for part in parts):
        raise NoSample("the completion is empty")
    if isinstance(completion, str) and is_whole(kata, completion):
        return completion
    return _filled(kata, completion)


def is_whole(kata: Kata, text: str) -> bool:
    """Whether a text is a whole file, judged by its functions, and not a region's body."""
    names = "|".join((kata.name, kata.test, f"{kata.name}_spec"))
    return bool(re.search(rf"^def (?:{names})\b", text, re.MULTILINE))


def _filled(kata: Kata, completion: str | list[str]) -> str:
    stub = kata.stub_text()
    count = len(regions(stub))
    if isinstance(completion, list):
        bodies = completion
    elif BEGIN in completion:
        try:
            bodies = [region.body for region in regions(completion)]
        except RegionError as error:
            raise NoSample(f"the completion's markers do not pair up: {error}") from None
    else:
        bodies = [completion]
    if len(bodies) != count:
        raise NoSample(
            f"the completion fills {len(bodies)} solution regions, but {kata.name} has {count}: "
            "give the whole file, or a list with one text for each region"
        )
    return fill_dedented(stub, [textwrap.dedent(body.replace("\r\n", "\n")) for body in bodies])


def json_kind(value: object) -> str:
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "a boolean"}
    return "null" if value is None else kinds.get(type(value), "a number")
