"""Two accesses of one memory that nothing orders, as Mosaic GPU's interpreter finds them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from grader.checks.prose import paragraph
from grader.model import Check, Finding

RACE = "RACE DETECTED"
#: "write of HostAllocationKey(memory_space_id=0, …)[(slice(0, 256, 1),)] from 0, 1, FILE:13:12 (F)"
_OF_0_10 = re.compile(
    r"(?P<kind>read|write) of \w+\(memory_space_id=(?P<space>\d)[^\n]*? (?P<file>/?[^\s,]+):"
    r"(?P<line>\d{1,7}):\d+ \("
)
_OF_0_12 = re.compile(
    r"(?P<kind>read|write)[^\n]*?(?P<file>(?<![^\s,:()])/[^\s,:()]++):(?P<line>\d{1,7})(?::\d+)?"
)
SPACES = {"0": "global memory", "1": "shared memory"}
#: What starts a copy, and what touches memory by itself.
_COPY_IN, _COPY_OUT = "copy_gmem_to_smem", "copy_smem_to_gmem"


@dataclass(frozen=True, slots=True)
class _Access:
    kind: str
    line: int
    text: str
    space: str


def race_finding(texts: Sequence[str], file: str, lines: Sequence[str]) -> Finding | None:
    """The first of the races that are told in these texts; None where none is.

    `lines` are those of the learner's file, which is called `file`.
    """
    told = next((text[text.index(RACE) :] for text in texts if RACE in text), None)
    if told is None:
        return None
    accesses = _accesses(told, file, lines)
    phrase, why, advice = _words(accesses)
    parts = [f"A race: {phrase}, and nothing orders the two."]
    for access in accesses:
        at = f"{file}:{access.line}" if access.text else "in given code"
        parts.append(paragraph(access.kind, f"{at}\n    {access.text}" if access.text else at))
    if not accesses:
        parts.append(paragraph("error", _without_clocks(told)))
    parts += [paragraph("why", why), paragraph("try", advice)]
    return Finding(Check.VALUES, f"race: {phrase}", "\n".join(parts), told)


def _accesses(told: str, file: str, lines: Sequence[str]) -> list[_Access]:
    found = []
    for line in told.splitlines():
        match = _OF_0_10.search(line) or _OF_0_12.search(line)
        if match:
            number = int(match["line"])
            own = PurePath(match["file"]).name == PurePath(file).name
            text = lines[number - 1].strip() if own and 0 < number <= len(lines) else ""
            space = SPACES.get(match.groupdict().get("space", ""), "memory")
            found.append(_Access(match["kind"], number, text, space))
    return found[:2]


def _words(accesses: Sequence[_Access]) -> tuple[str, str, str]:
    """A phrase, why it is wrong, and what to try."""
    kinds = sorted(access.kind for access in accesses)
    started = [a for a in accesses if _COPY_IN in a.text]
    sent = [a for a in accesses if _COPY_OUT in a.text]
    if started and sent:
        return (
            "a copy into shared memory, while a copy out of it is under way",
            "The TMA engine still reads what the next copy overwrites.",
            "plgpu.wait_smem_to_gmem(n) returns when at most n copies out are left: wait for this "
            "slot's before you start a copy into it.",
        )
    if started and kinds == ["read", "write"]:
        return (
            "memory is read while a copy into it is under way",
            "copy_gmem_to_smem only starts a copy. The TMA engine carries it out beside the "
            "kernel, and arrives at the barrier when all bytes are there.",
            "Wait on the copy's barrier, plgpu.barrier_wait, after the copy was started and before "
            "its target is read; of several slots, on that slot's own barrier.",
        )
    if kinds == ["write", "write"] and len(accesses) == 2:
        return (
            "two write the same elements",
            "Blocks and warpgroups run at the same time, in any order. Here two of them write to "
            "the same place, so what stays there is a matter of luck.",
            "Each block, and each warpgroup of it, needs elements of its own: compute where from "
            "lax.axis_index of the grid's axes and of the threads' axis. Of a part that two share, "
            "each stores its own elements alone.",
        )
    if sent:
        return (
            "memory is copied out while it is being written",
            "The TMA engine reads shared memory past the threads' own view of it. What they have "
            "stored it sees after plgpu.commit_smem(); what it reads they may write again after "
            "plgpu.wait_smem_to_gmem.",
            "Store, then plgpu.commit_smem(), then copy_smem_to_gmem; and before the same memory "
            "is stored to again, plgpu.wait_smem_to_gmem.",
        )
    return (
        "one reads what another writes",
        "Blocks and warpgroups run at the same time, in any order.",
        "Let what is read wait for what is written: a barrier between warpgroups, "
        "plgpu.commit_smem() before a unit reads, or another kernel between blocks.",
    )


def _without_clocks(told: str) -> str:
    return "\n".join(line for line in told.splitlines() if "clock" not in line)
