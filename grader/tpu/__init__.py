"""What a TPU would make of a kernel, found out without one.

    chips            the table of chips: clock, bandwidth, matrix units, VMEM, each with its source
    tiling           which block shapes a TPU accepts, and the nearest that it would
    refused_blocks   which of a kernel's blocks a TPU refuses, in words
    layout           the tiles that arrays lie in, and what they pad
    traffic          from grid and index maps alone: which blocks move at which step, their bytes
    motion           the same step by step: runs of each block, and the tables' cells that are read
    reuse            how long a kernel keeps a block, in words
    compiler         libtpu, the TPU's own compiler: its schedule of a kernel, or why it refuses
    compile_apart    the same in a process of its own: compile_child;  programs, what that is given
    libtpu_errors    its error messages, read;  vmem, its report on VMEM;  hlo, its programs
    smaller_blocks   block sizes that would fit into VMEM
    schedule         the compiler's schedule, executed: cycles, stalls, spills, what moves when
    predict          these put together, for any function that holds a kernel: a `prediction`
    by_hand          what a kernel copies by itself, as scheduled;  slots and slot_lanes, over time
    bounds           blocks outside of their arrays
    roofline         what bounds a kernel: HBM, a unit of the core, DMA latency
    bottlenecks      what makes it slow, and what to try
    measuring        what a jax.numpy program takes at best;  xla_traffic, what XLA's moves
    screen           all of this on a terminal;  perfetto, on a timeline;  units, sizes in words
    arguments        what the command line says;  `python -m grader.tpu` is __main__

Only `compiler`, `predict` and `motion` need jax, and they import it when they are called.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from grader.tpu.chips import CHIPS, Chip

if TYPE_CHECKING:
    from grader.tpu.predict import predictions
    from grader.tpu.prediction import OnChip, Prediction

__all__ = ["CHIPS", "Chip", "OnChip", "Prediction", "predictions"]


def __getattr__(name: str) -> Any:
    """Import `predict`, and numpy with it, once something of it is wanted; the chips are light."""
    if name in __all__:
        module = "predict" if name == "predictions" else "prediction"
        return getattr(importlib.import_module(f"grader.tpu.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
