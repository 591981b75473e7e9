"""Reads the compiler's final schedule, a listing of VLIW bundles, and counts cycles by unit.

A TPU core issues one bundle a cycle; a bundle holds an instruction for each unit that has something
to do: scalar ALUs, vector ALUs, matrix units, loads, stores, DMA. A line of the listing reads

      0x41   : > { %192 = sbr.rel (%p1401_p12) target bundleno = 334 (0x14e)  ;;  %s194_s23 = … }

with the bundle's number, the loop depth (`>`), and its instructions. A value such as `%s194_s23`
has two names: its place in the program, and the register that holds it, here `s23`.

The format is not documented; this reads what libtpu 0.0.42 to 0.0.51 write under
`--xla_jf_dump_llo_text` for the pass `packed-bundles-post-ra`. Anything else raises NotUnderstood.
"""

from __future__ import annotations

import enum
import functools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


class NotUnderstood(Exception):
    """The schedule has something with an unknown effect; the message describes it."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction. Registers have only their place as name: "s23", "p12".

    `result` is the scalar or predicate register that it writes, or "". It takes effect if the
    predicate register `guard` holds, or, with `negated`, if it doesn't. `operands` are as in the
    listing; `labels` are those that the listing names, such as a DMA's `size_in_granules`. A
    `vector` instruction, which only concerns the vector units, has no operands here.
    """

    opcode: str
    result: str = ""
    guard: str = ""
    negated: bool = False
    operands: tuple[str, ...] = ()
    labels: dict[str, str] | None = None
    vector: bool = False
    spill: bool = False  # moves a vector register to or from VMEM because there are too few
    note: str = ""  # the comment's text

    @property
    def target(self) -> int:
        """The number of the bundle to which a branch goes."""
        found = re.search(r"bundleno = (\d+)", " ".join(self.operands))
        if not found:
            raise NotUnderstood(f"a branch to a computed address ({self.opcode})")
        return int(found[1])


@dataclass(frozen=True, slots=True)
class Bundle:
    """The instructions that one core issues in one cycle; `depth` is the number of its loops."""

    depth: int
    instructions: tuple[Instruction, ...]


_ENTRY = re.compile(r"^ *(0x[0-9a-f]+|0) +(?:[A-Z]{2})? *:([> ]*)\{", re.MULTILINE)
#: Most comments are free text, but some have a meaning: the name of the operand that follows, the
#: direction of a general DMA, the purpose of a division.
_COMMENT = re.compile(r"/\*(?!\w+=\*/| \w+-to-\w+ \*/| k[A-Z]\w+ \*/).*?\*/", re.DOTALL)
_NOTE = re.compile(r"/\* (\S+) \*/")
_HALT = re.compile(r"\s*%\w+ = shalt\.err(.*?)/\* *(.*?)\s*(?:\n|\*/)", re.DOTALL)
_INSTRUCTION = re.compile(r"(?:%(\w+) = )?([a-z][\w.\-]*) ?(.*)", re.DOTALL)
_ATTRIBUTE = re.compile(r"\[(?:thread|resolvable):[^\]]*\]\s*")
_GUARD = re.compile(r"\((!?)%p\d+_(p\d+)(?:, *%?(\w+))?\),? *")
_REGISTER = re.compile(r"%[sp]\d+_([sp]\d+)")
_LABELLED = re.compile(r"/\*(\w+)=\*/(.*)")
_OPERAND_KIND = re.compile(r"\[shape: .*?index: (\d+), kind: (\w+)")

#: Vector instructions that affect the scalar core, and so are kept whole.
_SHARED = ("vsync", "vwait", "vdelay", "vpop.sfrf")


def parse(listing: str) -> tuple[Bundle, ...]:
    """The bundles of a listing, by number. Raises NotUnderstood."""
    starts = list(_ENTRY.finditer(listing))
    if not starts:
        raise NotUnderstood("a listing without bundles")
    ends = [found.start() for found in starts[1:]] + [len(listing)]
    bundles = []
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        if int(start[1], 16) != number:
            raise NotUnderstood(f"a gap in the listing before bundle {start[1]}")
        body = listing[start.end() : end]
        bundles.append(Bundle(start[2].count(">"), tuple(_instructions(body))))
    return tuple(bundles)


def _instructions(body: str) -> Iterator[Instruction]:
    if body.startswith("}"):
        return
    if "shalt.err" in body:
        yield _halt(body)
        return
    code = _COMMENT.sub("", body) if "/*" in body else body
    for text in code[: code.rindex("}")].split(";;"):
        name, equals, rest = text.strip().partition(" = ")
        opcode = rest.partition(" ")[0]
        if opcode[:1] == "v" and not opcode.startswith(_SHARED):
            yield _vector(opcode, "_spill" in rest)
        elif name or equals:
            yield _instruction(text.strip())


def _halt(body: str) -> Instruction:
    """It is alone in its bundle, and has a message that may contain comments."""
    if not (found := _HALT.match(body)):
        raise NotUnderstood("an instruction that shares its bundle with shalt.err")
    guard = _GUARD.search(found[1])
    return Instruction(
        "shalt.err",
        guard=guard[2] if guard else "",
        negated=bool(guard and guard[1]),
        note=found[2],
    )


@functools.cache
def _vector(opcode: str, spill: bool) -> Instruction:
    return Instruction(opcode, vector=True, spill=spill)


def _instruction(text: str) -> Instruction:
    found = _INSTRUCTION.fullmatch(text)
    if not found:
        raise NotUnderstood(f"an instruction of unknown form: {text[:60]!r}")
    name, opcode, rest = found[1] or "", found[2], found[3]
    note = ""
    if noted := _NOTE.search(rest):
        rest, note = rest[: noted.start()], noted[1]
    if opcode.startswith("inlined_call_operand"):
        rest = _operand_and_kind(rest)
    rest = _ATTRIBUTE.sub("", rest)
    guard, negated, otherwise = "", False, ""
    if guarded := _GUARD.search(rest):
        guard, negated, otherwise = guarded[2], guarded[1] == "!", guarded[3] or ""
        rest = f"{rest[: guarded.start()].rstrip()}, {rest[guarded.end() :]}".strip(" ,")
    result = _REGISTER.sub(r"\1", f"%{name}") if re.fullmatch(r"[sp]\d+_[sp]\d+", name) else ""
    if otherwise and otherwise.rpartition("_")[2] != result:
        raise NotUnderstood(f"a guarded {opcode} that keeps another register's value")
    parts = [part.strip() for part in _REGISTER.sub(r"\1", rest).split(",")] if rest else []
    labels = {found[1]: found[2] for part in parts if (found := _LABELLED.fullmatch(part))}
    operands = tuple(_LABELLED.sub(r"\2", part) for part in parts)
    return Instruction(opcode, result, guard, negated, operands, labels or None, note=note)


def _operand_and_kind(rest: str) -> str:
    found = _OPERAND_KIND.search(rest)
    if not found:
        raise NotUnderstood(f"an operand of the kernel of unknown form: {rest[:60]!r}")
    return f"{found[1]}, {found[2]}"


class Unit(enum.Enum):
    """A unit of a TensorCore. A bundle counts for the first of these that it uses."""

    MXU = "MXU"  # matrix units
    XLU = "XLU"  # across lanes and sublanes: transposes, rotations, reductions
    EUP = "EUP"  # transcendental functions
    VPU = "VPU"  # vector arithmetic
    VMEM = "VMEM"  # vector loads and stores
    SCALAR = "scalar"


#: Matrix units and XLUs are numbered, as in "vmatmul.bf16.gmra.mxu0" and "vpop.trf.xlu1".
_PATTERNS = (
    (Unit.MXU, r".*\.mxu\d"),
    (Unit.XLU, r".*\.xlu\d"),
    (Unit.EUP, r"vpop\.(erf|eup)|v(pow2|exp2|log2|rcp|rsqrt|tanh|erf|sinq|cosq)\b"),
    (Unit.VMEM, r"vld|vst\b"),
    (Unit.VPU, r"v(?!sync|wait|delay|trace|phi|push|pop\.sfrf)"),
)
_UNITS = {unit: number for number, unit in enumerate(Unit)}


def unit_of(opcode: str) -> Unit:
    """The unit that an instruction keeps busy."""
    return next((unit for unit, pattern in _PATTERNS if re.match(pattern, opcode)), Unit.SCALAR)


def busy(bundles: Sequence[Bundle], counts: Sequence[int]) -> dict[str, int]:
    """Cycles by unit. Empty bundles wait for a result, and count with the bundle before them."""
    cycles: Counter[Unit] = Counter()
    units: dict[str, Unit] = {}
    present = Unit.SCALAR
    for bundle, count in zip(bundles, counts, strict=True):
        found = [_unit(instruction, units) for instruction in bundle.instructions]
        present = min(found, key=_UNITS.__getitem__) if found else present
        cycles[present] += count
    return {unit.value: cycles[unit] for unit in Unit if cycles[unit]}


def _unit(instruction: Instruction, units: dict[str, Unit]) -> Unit:
    opcode = instruction.opcode
    if opcode not in units:
        units[opcode] = unit_of(opcode)
    return units[opcode]


def spills(bundles: Sequence[Bundle], counts: Sequence[int]) -> int:
    """The number of vector registers saved to VMEM or fetched back because there are too few."""
    return sum(
        count * sum(instruction.spill for instruction in bundle.instructions)
        for bundle, count in zip(bundles, counts, strict=True)
        if count
    )
