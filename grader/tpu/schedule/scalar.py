"""What instructions of the scalar core do, as Python expressions.

Registers become `s[23]` and `p[12]`; whatever reaches beyond them is a method of the machine `m`.
The vector units decide nothing here: what they hand to the scalar core is Unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from grader.tpu.schedule.bundles import Instruction, NotUnderstood
from grader.tpu.schedule.machine import ALLOCATION_SHIFT
from grader.tpu.schedule.registers import WORD, wrapped


def _wrapped(expression: str) -> str:
    """Wrap it to 32 bits; the call is spared where it fits, which is nearly always."""
    return f"v if (v := {expression}) >> 31 in fits else wrapped(v)"


#: What is written, by opcode or the beginning of it. `{0}` is an operand, `{u0}` one as an unsigned
#: word, `{note}` a comment's word.
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
    "spop": "unknown('data in vector registers')",
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

#: What is done, by opcode. Fences, the vector units' random seed, and the parities that semaphores
#: begin and end with have no effect on control, SMEM or time beyond the bundle that they stand in.
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

    An unknown instruction's value is Unknown, which does no harm until something depends on it.
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
    """The statement that an instruction without a result stands for; nothing for a silent one.

    Raises NotUnderstood for one whose effect is not known.
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
            return ""  # it compares addresses, and those are made up here
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
    """A general DMA has any number of strides, and may lead to another chip."""
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
    """When an instruction takes effect."""
    if not instruction.guard:
        return "True"
    return f"{operand(instruction.guard)}{' ^ True' if instruction.negated else ''}"


def _sum(terms: Iterable[str]) -> str:
    """The terms' sum, computed now where they are numbers: for the addresses of spills."""
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
        return operand(found[1])  # behind it stands what the address is known to lie in
    if found := re.fullmatch(r"\[(?:smem|vmem|sflag|hbm)?:?(.*)\]", text):
        return _sum(operand(term.strip(" []")) for term in found[1].split(" + "))
    if re.fullmatch(_FLOAT, text):
        return "floating()"
    raise NotUnderstood(f"an operand that reads {text!r}")
