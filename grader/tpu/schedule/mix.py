"""What the bundles of a schedule are spent on, by the unit that the slowest part needs."""

from __future__ import annotations

import enum
import re
from collections import Counter
from collections.abc import Sequence

from grader.tpu.schedule.bundles import Bundle, Instruction


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
    """Cycles by unit. Empty bundles, which wait for a result, go with the bundle before them."""
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
    """How often a vector register was saved to VMEM, or fetched back, for want of registers."""
    return sum(
        count * sum(instruction.spill for instruction in bundle.instructions)
        for bundle, count in zip(bundles, counts, strict=True)
        if count
    )
