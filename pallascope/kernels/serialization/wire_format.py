"""The layout of the bytes, and source lines in them.

The bytes are a word, the length of a JSON document, the document, and raw bytes.

Source lines go from JAX's tracebacks to data, and from data to tracebacks. jaxlib's Traceback can't
be built from data, only taken from a running stack. So each frame becomes a function that only
calls the next one, with the frame's file, name and columns; the innermost takes the traceback. They
run in a separate thread, whose stack contains nothing else.
"""

from __future__ import annotations

import _thread
import itertools
import json
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from pallascope.kernels.jax_internals import Traceback, is_user_filename
from pallascope.kernels.serialization.encoding import MOST_FRAMES

_PATIENCE = 60  # seconds; thousands take a few milliseconds


class Frame(NamedTuple):
    """One level of a stack, outside of jax: its place when it called the next."""

    file: str
    function: str
    line: int
    column: int
    end_line: int
    end_column: int


Stack = tuple[Frame, ...]


def stack_of(traceback: Any) -> Stack:
    """The frames outside of jax and of Python's own library, the innermost first."""
    found = zip(*traceback.raw_frames(), strict=True)
    own = ((code, at) for code, at in found if is_user_filename(code.co_filename))
    return tuple(_frame(code, at) for code, at in itertools.islice(own, MOST_FRAMES))


def _frame(code: CodeType, at: int) -> Frame:
    line, column, end_line, end_column = Traceback.code_addr2location(code, at)
    return Frame(code.co_filename, code.co_qualname, line, column, end_line, end_column)


def tracebacks(stacks: Sequence[Stack]) -> list[Any]:
    """A traceback for each stack."""
    functions: dict[tuple[Frame, bool], Callable[..., Any]] = {}

    def function(frame: Frame, innermost: bool) -> Callable[..., Any]:
        made = functions.get((frame, innermost))
        if made is None:
            made = functions[frame, innermost] = _standing_for(frame, innermost)
        return made

    def chain(stack: Stack) -> tuple[Any, ...]:
        if not stack:
            return (Traceback.get_traceback,)
        calls = (function(stack[0], True), Traceback.get_traceback)
        for frame in stack[1:]:
            calls = (function(frame, False), calls)
        return calls

    return _alone(operator.call, [chain(stack) for stack in stacks])


def _alone(call: Callable[..., Any], calls: Iterable[tuple[Any, ...]]) -> list[Any]:
    """`call(*arguments)` for each, in a thread whose stack has no other Python frames."""
    results: list[Any] = []
    done = _thread.allocate_lock()
    done.acquire()
    last = itertools.starmap(done.release, ((),))
    work = itertools.chain(itertools.starmap(call, calls), last)
    _thread.start_new_thread(results.extend, (work,))
    if not done.acquire(timeout=_PATIENCE):
        raise RuntimeError("a thread that takes tracebacks has died")
    return results[: len(results) - 1]


def _calls_the_next(calls: Any) -> Any:
    return calls[0](calls[1])


def _takes_it(take: Any) -> Any:
    return take()


def _standing_for(frame: Frame, innermost: bool) -> Callable[..., Any]:
    template = (_takes_it if innermost else _calls_the_next).__code__
    first = max(frame.line, 1)
    code = template.replace(
        co_filename=frame.file,
        co_name=frame.function.rpartition(".")[2],
        co_qualname=frame.function,
        co_firstlineno=first,
        co_linetable=_positions(len(template.co_code) // 2, first, frame),
    )
    return FunctionType(code, {"__builtins__": {}})


def _positions(units: int, first: int, frame: Frame) -> bytes:
    """The table of positions of a code object whose instructions all have the same place.

    Each entry is in the long form: the number of its code units, lines as differences to the
    previous entry, columns from 1 (see CPython's Objects/locations.md).
    """
    table, line = bytearray(), first
    while units:
        count = min(units, 8)
        table.append(0x80 | 14 << 3 | count - 1)
        table += _signed(frame.line - line)
        table += _unsigned(frame.end_line - frame.line)
        table += _unsigned(frame.column + 1) + _unsigned(frame.end_column + 1)
        line = frame.line
        units -= count
    return bytes(table)


def _signed(number: int) -> bytes:
    return _unsigned(-number << 1 | 1 if number < 0 else number << 1)


def _unsigned(number: int) -> bytes:
    digits = bytearray()
    while number >= 64:
        digits.append(64 | number & 63)
        number >>= 6
    return bytes((*digits, number))


_WORD = b"pallas trace 1\n"
_LENGTH = 8  # bytes of the document's length

#: The first item of a node that is a list: the number of a form, or one of these.
TRACEBACK, BYTES = -1, -2
LARGEST = 2**64  # of an integer; most of JAX's have 32 bits


@dataclass(frozen=True, slots=True)
class WireLayout:
    """The contents of a document.

    `nodes` are JSON's own values, or lists: the number of a form in `forms`, then the numbers of
    the nodes that are its parts. Nodes come after their parts. The trace is the node `root`.
    """

    jax: str
    forms: list[str]
    stacks: list[Stack]
    nodes: list[Any]
    blobs: list[bytes]
    root: int


def packed(layout: WireLayout) -> bytes:
    """A layout as bytes."""
    frames: dict[Frame, int] = {}
    stacks = [[frames.setdefault(frame, len(frames)) for frame in stack] for stack in layout.stacks]
    document = {
        "jax": layout.jax,
        "forms": layout.forms,
        "frames": list(frames),
        "stacks": stacks,
        "nodes": layout.nodes,
        "blobs": [len(blob) for blob in layout.blobs],
        "root": layout.root,
    }
    text = json.dumps(document, separators=(",", ":")).encode()
    return b"".join((_WORD, len(text).to_bytes(_LENGTH, "big"), text, *layout.blobs))


def unpacked(data: bytes) -> WireLayout:
    """The layout of bytes. Raises ValueError, TypeError or LookupError for other bytes."""
    start = len(_WORD) + _LENGTH
    if data[: len(_WORD)] != _WORD:
        raise ValueError("no trace begins like this")
    end = start + int.from_bytes(data[len(_WORD) : start], "big")
    document = json.loads(data[start:end])
    if not isinstance(document, dict):
        raise TypeError("a document is a dict")
    frames = [_frame_record(frame) for frame in document["frames"]]
    sizes = document["blobs"]
    if not all(type(size) is int and size >= 0 for size in sizes):
        raise ValueError("bytes of a strange length")
    ends = list(itertools.accumulate(sizes, initial=end))
    if ends[-1] != len(data):
        raise ValueError("bytes are missing, or there are too many")
    return WireLayout(
        jax=document["jax"],
        forms=document["forms"],
        stacks=[tuple(frames[number] for number in stack) for stack in document["stacks"]],
        nodes=document["nodes"],
        blobs=[data[a:b] for a, b in itertools.pairwise(ends)],
        root=document["root"],
    )


def _frame_record(values: Any) -> Frame:
    frame = Frame(*values)
    names, numbers = frame[:2], frame[2:]
    if not all(type(name) is str for name in names):
        raise TypeError("a frame has a file and a function")
    if not all(type(number) is int and -1 <= number < 1 << 30 for number in numbers):
        raise ValueError("a frame is at a line and a column")
    return frame._replace(line=max(frame.line, 0), end_line=max(frame.line, frame.end_line))
