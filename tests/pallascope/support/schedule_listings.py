"""Small schedules, written by hand in the format of the compiler's listings; a chip for them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pallascope.tpu.chips import CHIPS
from pallascope.tpu.schedule import OperandSource, Schedule, simulate
from pallascope.tpu.schedule.bundles import Bundle, parse
from pallascope.tpu.schedule.machine import ALLOCATION_SHIFT, Machine
from pallascope.tpu.schedule.scalar_core import ScheduleProgram, ScheduleRun

#: One cycle is a nanosecond, a DMA moves a granule a cycle and arrives 100 cycles later.
CHIP = dataclasses.replace(
    CHIPS["v5e"], clock=1e9, bandwidth=32e9, dma_latency=100e-9, granule=32, branch_delay=2
)

INPUT, OUTPUT = OperandSource("input", 0), OperandSource("output", 1)


def listing(*bundles: str) -> str:
    """A listing of bundles; registers may be written as `%s3`.

    A bundle is its instructions, separated by ` ;; `. It may begin with a label and with the marks
    of its loops, as in "LB: > %s1 = sadd.s32 1, %s1".
    """
    lines = []
    for number, text in enumerate(bundles):
        label, depth, body = re.fullmatch(
            r"(?:([A-Z]{2}):)? ?([> ]*)(.*)", text, re.DOTALL
        ).groups()  # type: ignore[union-attr]
        place = f"{number:#x}" if number else "0"
        body = re.sub(r"%([sp])(\d+)(?![\d_])", r"%\1\2_\1\2", body)
        inside = f" {body} " if body else ""
        lines.append(f"{place:>6} {label or '  '} : {depth}{{{inside}}}")
    return "\n".join(("= control target key start", "LB: loop body", *lines, ""))


def bundles(*texts: str) -> tuple[Bundle, ...]:
    return parse(listing(*texts))


def place(allocation: int, word: int = 0) -> int:
    """Where in SMEM an allocation has a word."""
    return (allocation + 1 << ALLOCATION_SHIFT) + word


def run(
    *texts: str,
    words: Mapping[OperandSource, Sequence[int]] | None = None,
    delay: int = CHIP.branch_delay,
    most_events: int = 100,
    free_gaps: bool = False,
) -> tuple[Machine, ScheduleRun]:
    """Run a schedule; gives the machine as it is at the end."""
    machine = Machine(100.0, 32.0, 32, {INPUT: "x", OUTPUT: "o"}, words or {}, most_events)
    return machine, ScheduleProgram(bundles(*texts), delay, free_gaps).run(machine)


def simulated(*texts: str, most_events: int = 100, **words: Sequence[int]) -> Schedule:
    """Simulate a schedule on CHIP, whose operands are `x` and `o`."""
    known = {INPUT: words["x"]} if "x" in words else {}
    return simulate(listing(*texts), CHIP, {INPUT: "x", OUTPUT: "o"}, known, most_events)


def evaluate(instruction: str, *operands: int) -> Any:
    """What an instruction makes of the registers s0, s1, …, which hold these words."""
    moves = (f"%s{n} = smov.u32 {value & 0xFFFFFFFF}" for n, value in enumerate(operands))
    kept = "%9 = sst [smem:[#allocation1]] %s9"
    if instruction.startswith(("scmp", "p", "sc.")):
        held = f"%p9 = {instruction}"
        into = "%s9 = scalar_select /*predicate=*/%p9, /*on_true=*/1, /*on_false=*/0"
        machine, _ = run(*moves, held, into, kept)
    else:
        machine, _ = run(*moves, f"%s9 = {instruction}", kept)
    return machine.memory[place(1)]
