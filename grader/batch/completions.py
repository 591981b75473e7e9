"""Makes a file of a completion, and finds the completion in a model's answer.

Fences are Markdown's: three or more backticks or tildes, a word for the language, up to a line of
at least as many of the same, or to the end of the answer, where a model was cut off.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from grader.exercise.catalog import Kata
from grader.exercise.regions import (
    BEGIN,
    RegionError,
    fill_dedented,
    regions,
)
from grader.grading.session_case import MOST_BYTES

COMPLETION = "completion"  # the field of a sample

#: Characters of bare code that are parsed here: a region's body. Some longer texts take Python's
#: parser gigabytes, and a process that is not confined has no limit of its own.
MOST_PARSED = 8 << 10
#: Characters of an answer, with its thoughts, that are looked through.
MOST_ANSWER = 16 << 20
_OPENING = re.compile(r"([ \t>]*+)(`{3,}+|~{3,}+)[ \t]*+([^\s`]*+)[^`]*+")
_THOUGHTS = re.compile(r"\A.*</think(?:ing)?>", re.DOTALL)
_A_FILE = re.compile(r"\s*(?:\"{3}|'{3}|import\s|from\s+[\w.]+\s+import\s)")
_PYTHON = ("", "python", "python3", "py", "py3")


class NoSample(ValueError):
    """A line can't be graded; the text says why."""


@dataclass(frozen=True, slots=True)
class FencedBlock:
    """A fenced block: its language in small letters, and its lines without the fence's indent."""

    language: str
    code: str


def source_in(kata: Kata, answer: str) -> str:
    """The whole file that a model's answer stands for. Raises NoSample, which says why not."""
    if len(answer) > MOST_ANSWER:
        raise NoSample(f"the answer has more than {MOST_ANSWER:,} characters")
    return source_of(kata, {COMPLETION: completion_in(kata, answer)})


def completion_in(kata: Kata, answer: str) -> str | list[str]:
    """The completion in an answer, as a line of `kata grade`'s samples holds it.

    What a model thought before, up to `</think>`, doesn't count. Of several blocks of Python it is
    the last that is a whole file, else the last with marker lines, else all, where there are as
    many as the kata has regions, else the last. Where nothing is fenced, or the answer begins as a
    file does, it is the answer itself. Raises NoSample where there are blocks, and none is Python.
    """
    answer = _THOUGHTS.sub("", answer).replace("\r\n", "\n")
    found = () if _A_FILE.match(answer) else tuple(blocks(answer))
    if not found:
        return answer
    codes = [block.code for block in found if block.language in _PYTHON and block.code.strip()]
    if not codes:
        raise NoSample("the answer has code blocks, and none of them is Python")
    for one in reversed(codes):
        if is_whole(kata, one):
            return one
    for one in reversed(codes):
        if BEGIN in one:
            return one
    return codes if 1 < len(codes) == len(regions(kata.stub_text())) else codes[-1]


def is_code(answer: str) -> bool:
    """Whether an answer has a code block, or is code: not whether it is any good."""
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
    """The lines without what stands before their fence: a list's indent, or a quote's mark."""
    for line in lines:
        if line.startswith(indent):
            yield line[len(indent) :]
        elif line.startswith(indent.rstrip()):  # a quote's empty line
            yield line[len(indent.rstrip()) :]
        else:
            yield line


# ---- completions ----


def source_of(kata: Kata, row: Mapping[str, Any]) -> str:
    """The whole file that a row's completion stands for. Raises NoSample.

    A completion is a whole file, or what belongs into the kata's only region, or a list with a text
    for each region, or a text in which each stands between its marker lines.
    """
    if COMPLETION not in row:
        raise NoSample(f'has no "{COMPLETION}"')
    completion = row[COMPLETION]
    parts = completion if isinstance(completion, list) else [completion]
    for part in parts:
        if not isinstance(part, str):
            raise NoSample(f'"{COMPLETION}" is {json_kind(part)}, and has to be a text')
    size = sum(len(part.encode("utf-8", "surrogatepass")) for part in parts)
    if size > MOST_BYTES:
        raise NoSample(f"the completion has {size:,} bytes, and at most {MOST_BYTES:,} are graded")
    if not any(part.strip() for part in parts):
        raise NoSample("the completion is empty")
    if isinstance(completion, str) and is_whole(kata, completion):
        return completion
    return _filled(kata, completion)


def is_whole(kata: Kata, text: str) -> bool:
    """Whether a text is a file, by the functions that it has, and not what fills a region."""
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
            f"the completion fills {len(bodies)} solution regions, and {kata.name} has {count}: "
            "give the whole file, or a list with one text for each region"
        )
    return fill_dedented(stub, [textwrap.dedent(body.replace("\r\n", "\n")) for body in bodies])


def json_kind(value: object) -> str:
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "a truth value"}
    return "null" if value is None else kinds.get(type(value), "a number")
