"""How the bytes are laid out: a word, the length of a JSON document, the document, raw bytes."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from typing import Any

from grader.kernels.carrier.tracebacks import Frame, Stack

_WORD = b"pallas trace 1\n"
_LENGTH = 8  # bytes of the document's length

#: What a node that is a list begins with: the number of a form, or one of these.
TRACEBACK, BYTES = -1, -2
LARGEST = 2**64  # of an integer; most of JAX's have 32 bits


@dataclass(frozen=True, slots=True)
class Layout:
    """What a document holds.

    `nodes` are JSON's own values, or lists: the number of a form in `forms`, then those of the
    nodes that are its parts. Nodes come after their parts. The trace is the node `root`.
    """

    jax: str
    forms: list[str]
    stacks: list[Stack]
    nodes: list[Any]
    blobs: list[bytes]
    root: int


def packed(layout: Layout) -> bytes:
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


def unpacked(data: bytes) -> Layout:
    """The layout of bytes. Raises ValueError, TypeError or LookupError for others."""
    start = len(_WORD) + _LENGTH
    if data[: len(_WORD)] != _WORD:
        raise ValueError("no trace begins like this")
    end = start + int.from_bytes(data[len(_WORD) : start], "big")
    document = json.loads(data[start:end])
    if not isinstance(document, dict):
        raise TypeError("a document is a dict")
    frames = [_frame(frame) for frame in document["frames"]]
    sizes = document["blobs"]
    if not all(type(size) is int and size >= 0 for size in sizes):
        raise ValueError("bytes of a strange length")
    ends = list(itertools.accumulate(sizes, initial=end))
    if ends[-1] != len(data):
        raise ValueError("bytes are missing, or there are too many")
    return Layout(
        jax=document["jax"],
        forms=document["forms"],
        stacks=[tuple(frames[number] for number in stack) for stack in document["stacks"]],
        nodes=document["nodes"],
        blobs=[data[a:b] for a, b in itertools.pairwise(ends)],
        root=document["root"],
    )


def _frame(values: Any) -> Frame:
    frame = Frame(*values)
    names, numbers = frame[:2], frame[2:]
    if not all(type(name) is str for name in names):
        raise TypeError("a frame has a file and a function")
    if not all(type(number) is int and -1 <= number < 1 << 30 for number in numbers):
        raise ValueError("a frame is at a line and a column")
    return frame._replace(line=max(frame.line, 0), end_line=max(frame.line, frame.end_line))
