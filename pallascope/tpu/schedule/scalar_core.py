"""Executes the scalar instructions of a schedule: branches, loops, the limit of basic blocks.

Each basic block is compiled to a Python function. Registers become `s[23]` and `p[12]`; memory,
DMA and semaphores are methods of the machine `m`. Values from the vector units are Unknown. The
bundles in a branch's delay slots run whether it is taken or not. All instructions of a bundle read
registers before any of them writes.
"""

from __future__ import annotations

import enum
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pallascope.tpu.schedule.bundles import Bundle, Instruction, NotUnderstood
from pallascope.tpu.schedule.machine import ALLOCATION_SHIFT, Machine
from pallascope.tpu.schedule.registers import (
    FITS,
    WORD,
    Address,
    OperandSource,
    Unknown,
    floating,
    leading_zeros,
    select,
    wrapped,
)


def _wrapped(expression: str) -> str:
    """Wrap it to 32 bits; without a call if it fits, which is nearly always."""
    return f"v if (v := {expression}) >> 31 in fits else wrapped(v)"


#: The value of an instruction, by opcode or its beginning. `{0}` is an operand, `{u0}` one as an
#: unsigned word, `{note}` a comment's word.
_VALUES = {
    "sadd.s32": _wrapped("{0} + {1}"),
    "ssub.s32": _wrapped("{0} - {1}"),
    "smul.u32": _wrapped("{0} * {1}"),
    "smulhi.u32": _wrapped("{u0} * {u1} >> 32"),
    "sc.u32": f"{{u0}} + {{u1}} > {WORD}",  # the carry of a sum
    "sand.u32": "{0} & {1}",
    "sor.u32": "{0} | {1}",
    "sxor.u32": "{0} ^ {1}",
    "sshll.u32": _wrapped("{0} << ({1} & 31)"),
    "sshra.s32": "{0} >> ({1} & 31)",
    "sshrl.u32": _wrapped("{u0} >> ({1} & 31)"),
    "sclz": "leading_zeros({0})",
    "smin.s32": "choose({0} < {1}, {0}, {1})",
    "smax.s32": "choose({0} > {1}, {0}, {1})",
    "smin.u32": "choose({u0} < {u1}, {0}, {1})",
    "smax.u32": "choose({u0} > {u1}, {0}, {1})",
    "por": "{0} | {1}",
    "pand": "{0} & {1}",
    "pxor": "{0} ^ {1}",
    "pnand": "({0} & {1}) ^ True",
    "pnor": "({0} | {1}) ^ True",
    "pneg": "{0} ^ True",
    "pmov": "{0}",
    "smov": "{0}",
    "scalar_select": "choose({0}, {1}, {2})",
    "sld": "m.load({0})",
    "spop.drf": "m.pop('drf')",
    "spop.sfrf": "m.pop('sfrf')",
    "vpop.sfrf": "m.pop('sfrf')",
    "spop": "unknown('values that the vector units compute')",
}
for _sign, _operator in {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
}.items():
    _VALUES[f"scmp.{_sign}.s32"] = f"{{0}} {_operator} {{1}}"
    _VALUES[f"scmp.{_sign}.u32"] = f"{{u0}} {_operator} {{u1}}"

#: The effect of an instruction, by opcode. Fences, the vector units' random seed, and semaphores'
#: initial and final parities have no effect on control, SMEM or time beyond their bundle.
_EFFECTS = {
    "dma.done.wait": "m.wait({0}, {1})",
    "vwait.ge": "m.wait({0}, {1})",
    "vwait.ge.trace": "m.wait({0}, {1})",
    "vdelay": "m.delay({0})",
    "vsyncadd": "m.signal({0}, {1})",
    "vsyncmov": "m.read_flag({0})",
    "sdivrem.u32": "m.divide({0}, {1}, {note})",
    "sbr.rel": "",
    "set.rngseed": "",
    "sfence": "",
    "vsyncpa": "",
}
_FLOAT = r"-?(\d+\.\d*(e[+-]?\d+)?|\d+e[+-]?\d+|inf|nan)"


def value_of(instruction: Instruction) -> str:
    """The expression whose value goes to `instruction.result`. Raises NotUnderstood.

    An unknown instruction's value is Unknown, which matters only if something depends on it.
    """
    opcode, operands = instruction.opcode, instruction.operands
    root, _, rest = opcode.partition(".")
    if root == "inlined_call_operand":
        index, kind = operands
        source = f"Source({kind!r}, {index})"
        return f"address({source})" if rest else f"m.value({source})"
    if root in ("scalar_lea", "int_to_ptr"):
        return _sum(map(operand, operands))
    if re.search(r"\.[a-z]*f\d", opcode):
        registers = (text for text in operands if not re.fullmatch(_FLOAT, text))
        return f"floating({', '.join(map(operand, registers))})"
    parts = opcode.split(".")
    for count in range(len(parts), 0, -1):
        if template := _VALUES.get(".".join(parts[:count])):
            return _filled(template, instruction)
    return f"unknown({f'the instruction {opcode}'!r})"


def effect_of(instruction: Instruction) -> str:
    """The statement for an instruction without a result; "" for one without effect.

    Raises NotUnderstood if its effect is unknown.
    """
    opcode, operands = instruction.opcode, instruction.operands
    if opcode in _EFFECTS:
        return _filled(_EFFECTS[opcode], instruction)
    if opcode == "sst":
        address, _, value = " ".join(operands).rpartition("] ")
        place = operand(address + "]")
        if place.isdecimal() and not instruction.guard:
            return f"m.memory[{place}] = {operand(value)}"
        return f"m.store({place}, {operand(value)}, {condition(instruction)})"
    if opcode == "shalt.err":
        if instruction.note.startswith("BoundsCheck"):
            return ""  # it compares addresses, and the simulated addresses are made up
        return f"m.halt({condition(instruction)}, {instruction.note!r})"
    if opcode.startswith("dma."):
        return _dma(instruction)
    raise NotUnderstood(f"the instruction {opcode}")


def _filled(template: str, instruction: Instruction) -> str:
    if template.startswith("m.pop") and instruction.guard:
        raise NotUnderstood(f"a guarded {instruction.opcode}")
    terms = [operand(text) for text in instruction.operands] if "{" in template else []
    unsigned = {f"u{n}": _unsigned(term) for n, term in enumerate(terms)}
    try:
        return template.format(*map("({})".format, terms), **unsigned, note=repr(instruction.note))
    except (IndexError, KeyError):
        raise NotUnderstood(f"{instruction.opcode} with {len(terms)} operands") from None


def _unsigned(expression: str) -> str:
    if re.fullmatch(r"-?\d+", expression):
        return str(int(expression) & WORD)
    return f"({expression} & {WORD})"


def _dma(instruction: Instruction) -> str:
    """A general DMA has any number of strides, and may go to another chip."""
    labels = instruction.labels or {}
    kind = instruction.opcode.removeprefix("dma.")
    start, _, end = ("src_to_dst" if kind == "general" else kind).partition("_to_")
    try:
        terms = [labels[key] for key in (start, "size_in_granules", end, "dst_syncflagno")]
    except KeyError:
        raise NotUnderstood(f"the instruction {instruction.opcode}") from None
    arguments = ", ".join(map(operand, terms))
    if kind == "general":
        return f"m.general_transfer({instruction.note.replace('-', '_')!r}, {arguments})"
    return f"m.transfer({kind!r}, {arguments})"


def condition(instruction: Instruction) -> str:
    """The condition under which an instruction takes effect."""
    if not instruction.guard:
        return "True"
    return f"{operand(instruction.guard)}{' ^ True' if instruction.negated else ''}"


def _sum(terms: Iterable[str]) -> str:
    """The terms' sum, computed now if they are numbers: for the addresses of spills."""
    terms = tuple(terms)
    return str(sum(map(int, terms))) if all(map(str.isdecimal, terms)) else " + ".join(terms)


def operand(text: str) -> str:
    """An operand as an expression: a register, a number, an address. Raises NotUnderstood."""
    if found := re.fullmatch(r"([sp])(\d+)", text):
        return f"{found[1]}[{found[2]}]"
    if re.fullmatch(r"-?\d+", text):
        return str(wrapped(int(text)))
    if text in ("true", "false"):
        return text.title()
    if found := re.fullmatch(r"\$?(0x[0-9a-f]+)", text):
        return str(wrapped(int(found[1], 16)))
    if found := re.fullmatch(r"#allocation(\d+)(_spill)?", text):
        return str((int(found[1]) + 1) << ALLOCATION_SHIFT)
    if found := re.fullmatch(r"(\S+) \[#allocation\w+\]", text):
        return operand(found[1])  # the name of the address's allocation follows
    if found := re.fullmatch(r"\[(?:smem|vmem|sflag|hbm)?:?(.*)\]", text):
        return _sum(operand(term.strip(" []")) for term in found[1].split(" + "))
    if re.fullmatch(_FLOAT, text):
        return "floating()"
    raise NotUnderstood(f"an operand of unknown form: {text!r}")


class Logged(enum.IntEnum):
    """The condition under which an instruction's effect grows evenly if its operands do."""

    CONSTANT = 0  # the operands stay the same
    COMPARED = 1  # their difference keeps its sign
    UNSIGNED = 2  # the same, and each operand keeps its sign
    MULTIPLIED = 3  # one of them stays the same
    SCALED = 4  # the second stays the same
    LOW_BITS = 5  # one stays the same; the other grows by a multiple of all of its bits
    SHIFTED = 6  # the second stays the same; the first grows by a multiple of 2 ** second
    DIVIDED = 7  # the first grows by a multiple of the second, which stays the same


END = -1
REGISTERS = 64

#: A matmul of 8192 x 8192 in blocks of 128 runs 1.6 million blocks, in seconds; an endless loop
#: exceeds any number.
MAX_BLOCKS = 10_000_000

#: Shorter runs aren't searched for repetitions.
SHORT_RUN = 100_000

Block = Callable[[list[Any], list[Any], Machine], int]


class Skipping(Protocol):
    """Called at each turn of a long run's outermost loop, whose blocks are logged from then on.

    `turn` is its number, without those left out. The call may change the registers, the machine and
    the blocks' counts to those of a later turn. It is False once no more turns can be left out.
    """

    def __call__(
        self, turn: int, s: list[Any], p: list[Any], machine: Machine, counts: Counter[int]
    ) -> bool: ...


_NAMES = {
    "Source": OperandSource,
    "address": Address,
    "choose": select,
    "fits": FITS,
    "floating": floating,
    "leading_zeros": leading_zeros,
    "unknown": Unknown,
    "wrapped": wrapped,
}


@dataclass(frozen=True, slots=True)
class ScheduleRun:
    """How often each bundle was issued, and when each iteration of the outermost loop began."""

    counts: tuple[int, ...]
    turns: tuple[float, ...]


class ScheduleProgram:
    """A schedule, ready to run. `delay` is the number of a branch's delay slots.

    With `free_gaps`, the empty bundles after a bundle that writes a predicate take no time.
    """

    def __init__(self, bundles: Sequence[Bundle], delay: int, free_gaps: bool = False) -> None:
        self._bundles = bundles
        self._delay = delay
        self._branches = dict(_branches(bundles))
        self._free = frozenset(self._gaps()) if free_gaps else frozenset[int]()
        self._leaders = self._find_leaders()
        self._ends: dict[int, int] = {}
        self._blocks = {first: self._compiled(first) for first in self._leaders}
        self._logging: dict[int, Block] = {}

    def _find_leaders(self) -> list[int]:
        after = {number + self._delay + 1 for number in self._branches}
        targets = {branch.target for branch in self._branches.values()}
        return sorted(n for n in {0} | after | targets if n < len(self._bundles))

    def _gaps(self) -> Iterator[int]:
        """The empty bundles that wait for a predicate. A branch's delay slots aren't among them."""
        slots = {n + slot for n in self._branches for slot in range(1, self._delay + 1)}
        waiting = False
        for number, bundle in enumerate(self._bundles):
            if bundle.instructions:
                waiting = any(one.result.startswith("p") for one in bundle.instructions)
            elif waiting and number not in slots:
                yield number

    def _compiled(self, first: int, logged: bool = False) -> Block:
        lines = [f"def block(s, p, m):  # from bundle {first}", *self._lines(first, logged)]
        names = dict(_NAMES)
        exec("\n    ".join(lines), names)
        return names["block"]  # type: ignore[return-value]

    def _lines(self, first: int, logged: bool) -> Iterator[str]:
        """The statements of the block that begins at bundle `first`.

        If `logged`, it adds its number and `logged_values` to the machine's log.
        """
        if logged:
            yield f"m.log.append({first})"
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
            instructions = self._bundles[number].instructions
            if logged:
                yield from map("m.log.append({})".format, logged_values(instructions))
            timed, others = _statements(instructions)
            if timed and idle:
                yield f"m.now += {idle}"
                idle = 0
            yield from timed
            yield from others
            idle += number not in self._free
            number += 1
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

    def run(self, machine: Machine, skip: Skipping | None = None) -> ScheduleRun:
        """Run from the first bundle to the last; `skip` may leave turns out.

        Raises NotUnderstood.
        """
        s: list[Any] = [Unknown("a register that was not written before")] * REGISTERS
        p = list(s)
        counts: Counter[int] = Counter()
        turns: list[float] = []
        header, at, blocks = self._outermost(), 0, self._blocks
        for number in range(MAX_BLOCKS):
            if at == END:
                break
            if at == header:
                turns.append(machine.now)
                if skip and number > SHORT_RUN:
                    blocks = self._logged_blocks()
                    if not skip(len(turns) - 1, s, p, machine, counts):
                        skip, blocks = None, self._blocks
                        machine.log.clear()
            counts[at] += 1
            at = blocks[at](s, p, machine)
        else:
            raise NotUnderstood(f"a run through more than {MAX_BLOCKS:,} basic blocks")
        issued = [0] * len(self._bundles)
        for first, count in counts.items():
            for number in range(first, self._ends[first]):
                issued[number] += count * (number not in self._free)
        return ScheduleRun(tuple(issued), tuple(turns))

    def _logged_blocks(self) -> dict[int, Block]:
        if not self._logging:
            self._logging = {first: self._compiled(first, logged=True) for first in self._leaders}
        return self._logging

    def _outermost(self) -> int:
        """The header of the loop around everything: the grid's loop, if there is one."""
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
    """The statements of one bundle: first those that take time or an immediate effect.

    All of them read the registers as they were before the bundle, so assignments come last.
    """
    timed: list[str] = []
    others: list[str] = []
    registers: list[str] = []
    values: list[str] = []
    pointers: list[str] = []
    for instruction in instructions:
        if instruction.opcode.startswith("int_to_ptr"):
            # Not an instruction: the listing gives the same register another type.
            register, value = operand(instruction.result), value_of(instruction)
            if register != value:
                pointers.append(f"{register} = {value}")
        elif instruction.opcode == "sphi":
            _same_register(instruction)
        elif instruction.result:
            register = operand(instruction.result)
            value = value_of(instruction)
            if instruction.opcode == "smov" and value == f"({register})":
                continue  # as of a pointer: another name for a register that the bundle may write
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


#: Instructions whose result need not grow evenly while their operands do, by the beginning of the
#: opcode: see `Logged` for the kinds. "u32" in one of COMPARED makes it UNSIGNED.
_UNEVEN = {
    "scmp": Logged.COMPARED,
    "smin": Logged.COMPARED,
    "smax": Logged.COMPARED,
    "sc.u32": Logged.CONSTANT,
    "sand": Logged.LOW_BITS,
    "sshr": Logged.SHIFTED,
    "sdivrem": Logged.DIVIDED,
    "smul.u32": Logged.MULTIPLIED,
    "smulhi": Logged.CONSTANT,
    "sor": Logged.CONSTANT,
    "sxor": Logged.CONSTANT,
    "sshll": Logged.SCALED,
    "sclz": Logged.CONSTANT,
    "sld": Logged.CONSTANT,
    "dma.done.wait": Logged.CONSTANT,
    "vwait": Logged.CONSTANT,
    "vdelay": Logged.CONSTANT,
    "vsyncadd": Logged.CONSTANT,
    "vsyncmov": Logged.CONSTANT,
}


def logged_values(instructions: Sequence[Instruction]) -> Iterator[str]:
    """For each instruction of a bundle that isn't linear, a tuple: its kind and its operands."""
    for instruction in instructions:
        opcode, operands = instruction.opcode, instruction.operands
        if instruction.vector or opcode == "sphi":
            continue
        if opcode == "sst":
            address, _, _ = " ".join(operands).rpartition("] ")
            yield f"({Logged.CONSTANT.value}, {operand(address + ']')}, 0)"
        elif opcode.startswith("dma.") and opcode != "dma.done.wait":
            labels = instruction.labels or {}
            of = (labels[key] for key in ("size_in_granules", "dst_syncflagno"))
            yield f"({Logged.CONSTANT.value}, {', '.join(map(operand, of))})"
            if "smem" in opcode + instruction.note:  # the loaded values depend on the place
                places = [text for key, text in labels.items() if key in ("hbm", "src")]
                yield f"({Logged.CONSTANT.value}, {', '.join([*map(operand, places), '0'][:2])})"
        elif found := [kind for start, kind in _UNEVEN.items() if opcode.startswith(start)]:
            terms = [*map(operand, operands), "0"][:2]
            unsigned = found[0] is Logged.COMPARED and "u32" in opcode
            kind = Logged.UNSIGNED if unsigned else found[0]
            yield f"({kind.value}, {', '.join(terms)})"


def _same_register(phi: Instruction) -> None:
    """Raises NotUnderstood if a loop's variable changes its register."""
    if any(register != phi.result for register in phi.operands):
        raise NotUnderstood("a loop whose variable moves between registers")
