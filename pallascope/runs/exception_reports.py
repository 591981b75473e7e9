"""Exceptions as data: the line of the judged file, whether it is a todo, Pallas' message."""

from __future__ import annotations

import contextlib
import logging
import re
import traceback
from collections.abc import Iterator
from types import TracebackType

from pallascope.kernels import CALLBACK_LOGGER, NotLowered, NotSerializable
from pallascope.model import (
    Problem,
    SourceFile,
    SourceLine,
    Stage,
)
from pallascope.runs.questions import KIND_LIMIT, MESSAGE_LIMIT
from pallascope.tools.files import show_lines
from pallascope.tools.regions import RegionError, regions
from pallascope.tools.text import shortened

TRACEBACK_LIMIT = 20_000  # characters
#: A sentence of jax's about the function that traces a launch.
_TRACED_BY_US = re.compile(
    r"\n?The error occurred while tracing the function \S+ at \S+traced_launch\.py:\d+ for jit\. ?"
)


class MissingGradeCall(Exception):
    """The kata's visible test no longer hands its launch function to the grader."""


class Caught:
    """What `caught` has caught so far: one problem, or None."""

    def __init__(self) -> None:
        self.problem: Problem | None = None


@contextlib.contextmanager
def caught(source: SourceFile, stage: Stage) -> Iterator[Caught]:
    """Turn whatever is raised inside into a Problem, also SystemExit and pytest's Skipped."""
    show_lines(source.file, source.content)
    result = Caught()
    log = _CallbackLog()
    logger = logging.getLogger(CALLBACK_LOGGER)
    logger.addHandler(log)
    try:
        yield result
    except BaseException as error:
        if isinstance(error, MemoryError):
            traceback.clear_frames(error.__traceback__)  # what it hoards is needed to tell of it
        result.problem = problem_of(log.first or error, source, stage)
    finally:
        logger.removeHandler(log)


class _CallbackLog(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.first: BaseException | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if self.first is None and record.exc_info:
            self.first = record.exc_info[1]


def problem_of(error: BaseException, source: SourceFile, stage: Stage) -> Problem:
    """An exception as data, with the innermost line of `source` that it passed through."""
    place = _place(error, source)
    within = _within(error, source, place)
    text = "".join(traceback.format_exception(error))
    return Problem(
        stage=stage,
        kind=shortened(type(error).__name__, KIND_LIMIT),
        message=shortened(_message(error), MESSAGE_LIMIT),
        place=place,
        todo=isinstance(error, NotImplementedError) and _in_region(error, source),
        traceback=text[-TRACEBACK_LIMIT:],
        operation=error.operation if isinstance(error, NotLowered) else None,
        call=error.call if isinstance(error, NotLowered) else None,
        within=within,
    )


def _message(error: BaseException) -> str:
    try:
        return _TRACED_BY_US.sub("", str(error)).strip()
    except Exception as another:  # an exception of the judged file's, which may say anything
        return f"(its text raises {type(another).__name__})"


def _place(error: BaseException, source: SourceFile) -> SourceLine | None:
    if isinstance(error, SyntaxError) and error.lineno and error.filename == source.file:
        return source.place(error.lineno)
    if isinstance(error, NotSerializable) and error.place:
        return source.place(error.place)
    seen: set[int] = set()
    current: BaseException | None = error
    found = None
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        # An exception's cause may be the stand-in with which JAX carries the user's own lines.
        found = found or _innermost(current.__traceback__, source)
        current = current.__cause__ or current.__context__
    return found


def _within(
    error: BaseException, source: SourceFile, place: SourceLine | None
) -> SourceLine | None:
    """The innermost line of a solution region, where `place` is outside of them all."""
    try:
        found = regions("\n".join(source.lines))
    except RegionError:
        return None
    if place is None or any(place.line in region for region in found):
        return None
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        numbers = _lines(current.__traceback__, source.file)
        for number in reversed(numbers):
            if any(number in region for region in found):
                return source.place(number)
        current = current.__cause__ or current.__context__
    return None


def _innermost(trace: TracebackType | None, source: SourceFile) -> SourceLine | None:
    for frame, number in reversed(list(traceback.walk_tb(trace))):
        if (file := frame.f_code.co_filename) in source.files:
            return source.place(number, file)
    return None


def _lines(trace: TracebackType | None, file: str) -> list[int]:
    """The lines of a file that a traceback passes, the innermost last."""
    return [
        number for frame, number in traceback.walk_tb(trace) if frame.f_code.co_filename == file
    ]


def _in_region(error: BaseException, source: SourceFile) -> bool:
    """Whether the exception was raised by a solution region itself, not by a function it called."""
    frames = list(traceback.walk_tb(error.__traceback__))
    if not frames or frames[-1][0].f_code.co_filename != source.file:
        return False
    try:
        return any(frames[-1][1] in region for region in regions("\n".join(source.lines)))
    except RegionError:
        return False
