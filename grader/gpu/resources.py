"""What `ptxas -v` says of a kernel. The texts are those of CUDA 12.9."""

from __future__ import annotations

import re
from dataclasses import dataclass

_USED = re.compile(r"Used (\d+) registers(?:, used (\d+) barriers)?(.*)")
_STATIC = re.compile(r"(\d+) bytes smem")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_ENTRY = re.compile(r"Compiling entry function '([^']+)' for '(\w+)'")
_TOLD = re.compile(r"^ptxas (?:warning *|info *: \((C\d+)\)|[^;]*; info *) *:? *(.+)$")


@dataclass(frozen=True, slots=True)
class Resources:
    """Of one kernel: registers a thread, and bytes a thread for the stack and for spills.

    `static_shared` is bytes a block. `barriers` are hardware barriers, as bar.sync has them, not
    mbarriers in shared memory. `told` is what else ptxas remarks, each remark once.
    """

    target: str
    registers: int
    spill_stores: int
    spill_loads: int
    stack: int
    barriers: int
    static_shared: int
    told: tuple[str, ...] = ()

    @property
    def spills(self) -> bool:
        return bool(self.spill_stores or self.spill_loads)


def read_resources(text: str) -> Resources | None:
    """None where the text names no entry function with its registers."""
    entry, used, frame = _ENTRY.search(text), _USED.search(text), _FRAME.search(text)
    if not (entry and used):
        return None
    static = _STATIC.search(used[3])
    stack, stores, loads = map(int, frame.groups()) if frame else (0, 0, 0)
    return Resources(
        target=entry[2],
        registers=int(used[1]),
        spill_stores=stores,
        spill_loads=loads,
        stack=stack,
        barriers=int(used[2] or 0),
        static_shared=int(static[1]) if static else 0,
        told=_remarks(text),
    )


def _remarks(text: str) -> tuple[str, ...]:
    """Warnings and numbered advice, without the lines of PTX that they are about."""
    found = (_TOLD.match(line) for line in text.splitlines())
    shown = (each[2] for each in found if each and (each[1] or "warning" in each[0]))
    plain = (re.sub(r" in around line \d+| in function '[^']*'", "", one) for one in shown)
    return tuple(dict.fromkeys(plain))
