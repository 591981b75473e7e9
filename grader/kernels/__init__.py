"""From a function to what it launches: the only package that touches JAX's internals.

    launch     trace and run a launch function, in a chosen mode
    around     what stands around the kernels of a trace
    onchip     trace and lower for a TPU that need not be there
    refusals   what Mosaic refuses to lower, and from which lines it came
    calls      one pallas_call as data: operands, blocks, grid
    blocks     where each operand's block lies on each grid step
    known      values that are known before any kernel runs
    tables     which cells of scalar prefetch the index maps read
    refs       what a kernel does first to each Ref
    jaxprs     what these share; how long a spec's sums are

Written against jax 0.10.2 and 0.12.0.1. Where an internal has moved, UnsupportedJax names those.
"""

from grader.kernels.block_positions import walk_of
from grader.kernels.calls import kernel_call
from grader.kernels.jaxprs import UnsupportedJax, longest_sum
from grader.kernels.mosaic_errors import NotLowered
from grader.kernels.refs import first_touches
from grader.kernels.running import CALLBACK_LOGGER, Launch, running

__all__ = [
    "CALLBACK_LOGGER",
    "Launch",
    "NotLowered",
    "UnsupportedJax",
    "first_touches",
    "kernel_call",
    "longest_sum",
    "running",
    "walk_of",
]
