"""What makes a kernel slow, in words, and what to try: the costliest first.

Measured against par where there is one, else against what is the least that any kernel must do.

    causes     all of what follows, for the kernels of a launch
    advised    one cause as data
    moved      bytes that are moved more often than needed, and padding
    copied     arrays that XLA copies around a kernel
    waits      steps that are many and small, waiting for HBM, DMAs and semaphores
    work       units that are busier than need be, registers that do not suffice
"""

from grader.tpu.bottlenecks.bottleneck import Bottleneck
from grader.tpu.bottlenecks.causes import bottlenecks
from grader.tpu.bottlenecks.waits import full

__all__ = ["Bottleneck", "bottlenecks", "full"]
