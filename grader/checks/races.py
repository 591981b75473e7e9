"""Accesses that nothing orders, as the TPU interpreter tells them, in the learner's terms."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from grader.checks.prose import paragraph
from grader.model import KernelCall

FOUND = "RACE DETECTED"

_CREDIT = (
    "A device may write to another's memory only once that has said so. Use another slot for each "
    "hop, or have the neighbour signal a semaphore of yours when it has read its slot, and wait "
    "for that signal before the slot is written again. Read what a copy brings only after "
    "wait_recv, and write to what it takes away only after wait_send."
)
_GRID = (
    "A grid dimension is marked parallel although its steps share an output block or scratch: "
    "mark it arbitrary in dimension_semantics. Where both cores are to work, give each of them a "
    "block of its own, along an axis of the grid that is parallel."
)
_MESH = (
    "Each core of a mesh runs the whole body. Choose by jax.lax.axis_index which part of the work "
    "is whose, so that no two cores write to the same place."
)
_ACCESS = re.compile(
    r"^ *(?P<kind>read|write) of \('(?P<space>\w+)'.*?\)\[(?P<part>.*)\] from (?P<copy>a copy by )?"
    r"\(?\d+, (?P<core>\d+)\)?, ?(?P<line>.*)$",
    re.MULTILINE,
)
_LINE = re.compile(r"(?P<file>.+?):(?P<line>\d+)(:\d+)? \(.*\)$")
#: What the interpreter names in the place of a line where a block is moved between two steps.
_BLOCK = "pallas_call"


def race_told(
    text: str, devices: int = 1, calls: Sequence[KernelCall] = (), file: str = ""
) -> tuple[str, str, str]:
    """A race in short, what it is, and what to try. `file` is the learner's."""
    # The vector clocks by which the interpreter knows are of no use to a reader.
    text = "\n".join(line for line in text.splitlines() if "clock:" not in line)
    if devices > 1:
        return (
            "race between devices",
            "A race: a copy from one device, and another device or copy, access the same memory, "
            f"at least one of them writes, and nothing orders the accesses.\n{_error(text)}",
            _CREDIT,
        )
    explanation = (
        "A race: two cores access the same memory, at least one of them writes, and nothing orders "
        "the accesses."
    )
    found = list(_by_core(text, file)) or [_error(text)]
    over_mesh = bool(calls) and all(call.cores > 1 for call in calls)
    advice = _MESH if over_mesh else _GRID
    return "race between two cores", "\n".join([explanation, *found]), advice


def _error(text: str) -> str:
    return paragraph("error", text)


def _by_core(text: str, file: str) -> Iterator[str]:
    """Each access: by which core, to which part of what, and in which line."""
    for access in _ACCESS.finditer(text):
        where = "HBM" if access["space"] in ("hbm", "any") else access["space"].upper()
        does = f"{access['kind']}s {_part(access['part'])} of an array in {where}"
        yield paragraph(f"core {access['core']}", f"{does}, {_how(access, file)}")


def _how(access: re.Match[str], file: str) -> str:
    if access["line"] == _BLOCK:
        moved = "in before a step" if access["kind"] == "read" else "out after a step"
        return f"as a block is copied {moved}"
    if match := _LINE.match(access["line"]):
        own = PurePath(match["file"]).parts[-len(PurePath(file).parts) :] == PurePath(file).parts
        name = file if own else PurePath(match["file"]).name
        return f"{'by a copy from ' if access['copy'] else ''}{name}:{match['line']}"
    return "by a copy of a pipeline" if access["copy"] else "in the kernel"


def _part(text: str) -> str:
    """ "[0:8, 0:384]" for "(slice(0, 8, 1), slice(0, 384, 1))"; "all" where nothing is said."""
    parts = [
        f"{match['start']}:{match['stop']}" if match["start"] else match[0]
        for match in re.finditer(r"slice\((?P<start>\d+), (?P<stop>\d+), \w+\)|\d+", text)
    ]
    return f"[{', '.join(parts)}]" if parts else "all"
