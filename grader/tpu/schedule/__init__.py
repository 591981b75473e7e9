"""How long a kernel takes: the TPU compiler's own schedule, executed without a TPU.

    bundles    the compiler's listing -> bundles of instructions
    scalar     what an instruction of the scalar core does, as a Python expression
    machine    scalar memory, the DMA engine, semaphores: what those instructions act on, in time
    program    basic blocks as Python functions; runs them
    words      how a scalar operand lies in the scalar core's memory
    mix        which units the bundles keep busy
    simulate   these put together: listing and chip in, Schedule out

The vector units' work takes the cycles for which the compiler has scheduled it; only waiting for
DMAs and semaphores takes more. So it is enough to execute the scalar core, which decides what is
looped, branched, copied and waited for. What can't be known for sure is not guessed: it raises
NotUnderstood, with the reason in words.
"""

from grader.tpu.schedule.bundles import NotUnderstood
from grader.tpu.schedule.machine import Landing, Stall, Transfer
from grader.tpu.schedule.mix import Unit
from grader.tpu.schedule.registers import Source
from grader.tpu.schedule.simulate import Moved, Schedule, simulate
from grader.tpu.schedule.smem_words import words

__all__ = [
    "Landing",
    "Moved",
    "NotUnderstood",
    "Schedule",
    "Source",
    "Stall",
    "Transfer",
    "Unit",
    "simulate",
    "words",
]
