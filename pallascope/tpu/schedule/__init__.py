"""How long a kernel takes: the TPU compiler's own schedule, executed without a TPU.

The vector units' work takes the cycles for which the compiler has scheduled it; only waiting for
DMAs and semaphores takes more. So it is enough to execute the scalar core, which decides what is
looped, branched, copied and waited for. What can't be known for sure is not guessed: it raises
NotUnderstood, with the reason in words.

bundles      Reads the listing of VLIW bundles, and their use of the units
machine      Memory, DMA engine and semaphores around the scalar core, in time
registers    Values in registers of the scalar core, and words in SMEM
scalar_core  Executes the scalar instructions of a schedule
simulate     Simulates a schedule: cycles of one core
"""

from pallascope.tpu.schedule.bundles import NotUnderstood, Unit
from pallascope.tpu.schedule.machine import Landing, Stall, Transfer
from pallascope.tpu.schedule.registers import OperandSource, words
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
    "words",
]
