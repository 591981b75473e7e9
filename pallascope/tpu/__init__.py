"""What a TPU would make of a kernel, found out without one.

Only `compiler`, `predict` and `pipeline_steps` need jax, and they import it when they are called.

block_sizes       Tiles and block sizes in memory, out-of-bounds blocks, reuse of blocks
bottlenecks       What makes a launch slow, and what to try: waits, steps, units
call_arguments    Reads sizes and array arguments from a command line
chips             The table of TPU chips, each number with its source
compile_process   Compiles with libtpu in a child process, for any caller
compiler          Compiles with libtpu in this process; XLA's cost as a baseline
dma_buffers       Scratch buffers of manual DMA: their slots, and a timeline of each
excess_traffic    Bottlenecks: bytes moved more often than needed, padding, copies by XLA
hlo               Reads compiled HLO: instructions, bytes in HBM, VMEM, cycles
kernel_screen     One kernel on a terminal: its bound, time, traffic, VMEM
launch_screen     A launch on a terminal beside another one, and XLA's instructions
libtpu            libtpu in this process: whether it is there, loading it, its dumps
libtpu_errors     Reads why libtpu refused a kernel
lowered_programs  A program lowered for a TPU, as data
perfetto          The predicted timeline as a trace for Perfetto
pipeline_steps    The blocks that a kernel's pipeline moves, grid step by grid step
predict           Predictions: lowering, compiling, traffic and schedule together
prediction        A kernel's predicted cost as data, and its roofline
schedule/         How long a kernel takes: the TPU compiler's own schedule, executed without a TPU
sweep_screen      A table of predicted times over block sizes
tiling            Which block shapes a TPU accepts, and the nearest legal ones
traffic           Bytes that a kernel moves between HBM and VMEM
units             Sizes, times and routes in words
vmem              What takes VMEM, by the compiler's report, and smaller blocks that fit
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pallascope.tpu.chips import CHIPS, Chip

if TYPE_CHECKING:
    from pallascope.tpu.predict import predictions
    from pallascope.tpu.prediction import OnChip, Prediction

__all__ = ["CHIPS", "Chip", "OnChip", "Prediction", "predictions"]


def __getattr__(name: str) -> Any:
    """Import `predict`, and numpy with it, once something of it is wanted; the chips are light."""
    if name in __all__:
        module = "predict" if name == "predictions" else "prediction"
        return getattr(importlib.import_module(f"pallascope.tpu.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
