"""Predicts a Pallas kernel's cost on a TPU, with the TPU's compiler and without a TPU.

Only `compiler`, `measure`, `predict` and `pipeline_steps` need jax, and they import it when they
are called.

block_rules       Which block shapes a TPU accepts, and the nearest legal ones
block_sizes       Tiles and block sizes in memory, out-of-bounds blocks, reuse of blocks
bottlenecks       Causes of a launch's cost, and advice: waits, steps, units
call_arguments    Reads sizes and array arguments from a command line
chips             The table of TPU chips, each number with its source
compile_process   Compiles with libtpu in a child process, for any caller
compiler          Compiles with libtpu in this process; XLA's cost as a baseline
dma_buffers       Scratch buffers of manual DMA: their slots, and a timeline of each
excess_traffic    Bottlenecks: bytes moved more often than needed, padding, XLA's copies
hlo               Programs for XLA: lowered, as data; and compiled, as HLO
kernel_screen     One kernel on a terminal: its bound, time, traffic, VMEM
launch_screen     A launch on a terminal, compared with another one and with XLA
libtpu            libtpu in this process: availability, loading, dumps
libtpu_errors     Parses libtpu's error messages
measure           Measures launches on this machine's TPU, next to predicted times
perfetto          The predicted timeline as a trace for Perfetto
pipeline_steps    The blocks that a kernel's pipeline moves on each grid step
predict           Predictions: lowering, compiling, traffic and schedule together
prediction        A kernel's predicted cost as data, and its roofline
schedule/         Simulates the compiler's schedule of a kernel
sweep             A table of predicted times over block sizes
traffic           The bytes that a kernel moves between HBM and VMEM
vmem              VMEM allocations, and smaller blocks that would fit
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
    """Import `predict`, and with it numpy, on first use; the table of chips needs neither."""
    if name in __all__:
        module = "predict" if name == "predictions" else "prediction"
        return getattr(importlib.import_module(f"pallascope.tpu.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
