"""Simulates the TPU compiler's schedule of a kernel.

The vector units take exactly the scheduled cycles; only waits for DMAs and semaphores take longer.
So it is enough to simulate the scalar core, which runs the loops, branches, copies and waits.
Anything uncertain raises NotUnderstood with the reason.

bundles      Reads the listing of VLIW bundles, and their use of the units
machine      Memory, DMA engine and semaphores around the scalar core, in time
registers    Values in registers of the scalar core, and words in SMEM
scalar_core  Executes the scalar instructions of a schedule
simulate     Simulates a schedule: cycles of one core
"""

from pallascope.tpu.schedule.bundles import NotUnderstood, Unit
from pallascope.tpu.schedule.machine import Landing, Stall, Transfer
from pallascope.tpu.schedule.registers import OperandSource, smem_words
from pallascope.tpu.schedule.simulate import OperandDmas, Schedule, simulate

__all__ = [
    "Landing",
    "NotUnderstood",
    "OperandDmas",
    "OperandSource",
    "Schedule",
    "Stall",
    "Transfer",
    "Unit",
    "simulate",
    "smem_words",
]
