"""Running a schedule: its basic blocks become Python functions, which call each other by number.

A branch takes effect some bundles late: those in its delay slots run whether it is taken or not.
Instructions of one bundle read registers before any of them writes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from grader.tpu.schedule.bundles import Bundle, Instruction, NotUnderstood
from grader.tpu.schedule.machine import Machine
from grader.tpu.schedule.registers import (
    FITS,
    Address,
    Source,
    Unknown,
    choose,
    floating,
    leading_zeros,
    wrapped,
)
from grader.tpu.schedule.scalar import condition, effect_of, operand, value_of

END = -1
REGISTERS = 64

#: A matmul of 8192 x 8192 in blocks of 128 runs through 1.6 million, in seconds; a loop that never
#: ends through any number.
MOST_BLOCKS = 10_000_000

Block = Callable[[list[Any], list[Any], Machine], int]
_NAMES = {
    "Source": Source,
    "address": Address,
    "choose": choose,
    "fits": FITS,
    "floating": floating,
    "leading_zeros": leading_zeros,
    "unknown": Unknown,
    "wrapped": wrapped,
}


@dataclass(frozen=True, slots=True)
class Ran:
    """How often each bundle was issued, and when each turn of the outermost loop began."""

    counts: tuple[int, ...]
    turns: tuple[float, ...]


class Program:
    """A schedule, ready to run. `delay` is the number of a branch's delay slots."""

    def __init__(self, bundles: Sequence[Bundle], delay: int) -> None:
        self._bundles = bundles
        self._delay = delay
        self._branches = dict(_branches(bundles))
        self._leaders = self._find_leaders()
        self._ends: dict[int, int] = {}
        self._blocks = {first: self._compiled(first) for first in self._leaders}

    def _find_leaders(self) -> list[int]:
        after = {number + self._delay + 1 for number in self._branches}
        targets = {branch.target for branch in self._branches.values()}
        return sorted(n for n in {0} | after | targets if n < len(self._bundles))

    def _compiled(self, first: int) -> Block:
        lines = [f"def block(s, p, m):  # from bundle {first}", *self._lines(first)]
        names = dict(_NAMES)
        exec("\n    ".join(lines), names)
        return names["block"]  # type: ignore[return-value]

    def _lines(self, first: int) -> Iterator[str]:
        """The statements of the block that begins at bundle `first`."""
        leading = bisect_right(self._leaders, first)
        last = self._leaders[leading] if leading < len(self._leaders) else len(self._bundles)
        branch, number, idle = None, first, 0
        while number < last:
            if number in self._branches:
                if branch:
                    raise NotUnderstood("a branch in another branch's delay slots")
                branch = self._branches[number]
                yield f"taken = {condition(branch)}"
                last = min(number + self._delay + 1, len(self._bundles))
            timed, others = _statements(self._bundles[number].instructions)
            if timed and idle:
                yield f"m.now += {idle}"
                idle = 0
            yield from timed
            yield from others
            number, idle = number + 1, idle + 1
        self._ends[first] = number
        yield f"m.now += {idle}"
        following = self._at(number)
        yield (
            f"return {self._at(branch.target)} if taken else {following}"
            if branch
            else f"return {following}"
        )

    def _at(self, number: int) -> int:
        return number if number < len(self._bundles) else END

    def run(self, machine: Machine) -> Ran:
        """Run from the first bundle to the last. Raises NotUnderstood."""
        s: list[Any] = [Unknown("a register that was not written before")] * REGISTERS
        p = list(s)
        counts: Counter[int] = Counter()
        turns: list[float] = []
        header, at = self._outermost(), 0
        for _ in range(MOST_BLOCKS):
            if at == END:
                break
            counts[at] += 1
            if at == header:
                turns.append(machine.now)
            at = self._blocks[at](s, p, machine)
        else:
            raise NotUnderstood(f"a run through more than {MOST_BLOCKS:,} basic blocks")
        issued = [0] * len(self._bundles)
        for first, count in counts.items():
            for number in range(first, self._ends[first]):
                issued[number] += count
        return Ran(tuple(issued), tuple(turns))

    def _outermost(self) -> int:
        """The header of the loop that is around everything: the grid's, where there is one."""
        backward = (
            branch.target for number, branch in self._branches.items() if branch.target <= number
        )
        return min((n for n in backward if self._bundles[n].depth == 1), default=END)


def _branches(bundles: Sequence[Bundle]) -> Iterator[tuple[int, Instruction]]:
    for number, bundle in enumerate(bundles):
        for instruction in bundle.instructions:
            if instruction.opcode.startswith("sbr"):
                yield number, instruction


def _statements(instructions: Sequence[Instruction]) -> tuple[list[str], list[str]]:
    """What one bundle does: what takes time, or takes effect in it, and then the others.

    All of it reads the registers as they were before the bundle, so they are assigned to last.
    """
    timed: list[str] = []
    others: list[str] = []
    registers: list[str] = []
    values: list[str] = []
    pointers: list[str] = []
    for instruction in instructions:
        if instruction.opcode.startswith("int_to_ptr"):
            # No instruction: the listing says what the same register now is.
            register, value = operand(instruction.result), value_of(instruction)
            if register != value:
                pointers.append(f"{register} = {value}")
        elif instruction.opcode == "sphi":
            _same_register(instruction)
        elif instruction.result:
            register = operand(instruction.result)
            value = value_of(instruction)
            if instruction.guard:
                value = f"choose({condition(instruction)}, {value}, {register})"
            registers.append(register)
            values.append(value)
        elif instruction.opcode in ("sst", "shalt.err"):
            others.append(effect_of(instruction))
        elif not instruction.vector and (effect := effect_of(instruction)):
            guarded = f"if {condition(instruction)}: " if instruction.guard else ""
            timed.append(guarded + effect)
    together = [f"{', '.join(registers)} = {', '.join(values)}"] if registers else []
    return timed, [*filter(None, others), *together, *pointers]


def _same_register(phi: Instruction) -> None:
    """A loop's variable stays in one register, or the listing would mean more than it says."""
    if any(register != phi.result for register in phi.operands):
        raise NotUnderstood("a loop whose variable moves between registers")
