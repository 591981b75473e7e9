"""Reading the text of programs that are compiled for a TPU: what XLA makes of them, mostly."""

from __future__ import annotations

import re
from collections.abc import Iterator

_INSTRUCTION = re.compile(r"^ *(?:ROOT )?%?([\w.\-]+) = (?:\(.*?\)|\S+) ([\w\-]+)\(", re.MULTILINE)
_KERNEL = 'custom_call_target="tpu_custom_call"'
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')

#: What stands for no estimate: the largest number that fits, half of it, or anything of this size.
_NO_CYCLES = 1 << 60

#: Instructions that name, group or reinterpret what is there already.
_FREE = ("parameter", "constant", "tuple", "get-tuple-element", "bitcast")


def kernel_instructions(hlo: str) -> list[str]:
    """The names of the instructions that run a Pallas kernel."""
    return [name for name, _, line in _instructions(hlo) if _KERNEL in line]


def estimated_cycles(hlo: str) -> tuple[int, tuple[str, ...]]:
    """XLA's own estimate for a program: cycles of all instructions of its entry computation.

    Also the operations for which it has none, in alphabetical order: with these, the cycles are
    too few. Among them are loops, since how often their bodies run is not in the text.
    """
    entry = hlo[hlo.index("\nENTRY ") :]
    cycles, missing = 0, set[str]()
    for _, operation, line in _instructions(entry):
        found = _CYCLES.search(line)
        if found and int(found[1]) < _NO_CYCLES:
            cycles += int(found[1])
        elif operation not in _FREE:
            missing.add(operation)
    return cycles, tuple(sorted(missing))


def _instructions(hlo: str) -> Iterator[tuple[str, str, str]]:
    """Name, operation and line of each instruction."""
    for line in hlo.splitlines():
        if found := _INSTRUCTION.match(line):
            yield found[1], found[2], line
