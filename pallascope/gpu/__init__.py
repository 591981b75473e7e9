"""Compiles a Mosaic GPU kernel and measures its resources without a GPU.

jax is imported when a function that needs it is called. Tracing and lowering need only jax, and
find most errors; compiling needs the extra "gpu".

compute_sanitizer     Runs a program on the GPU under compute-sanitizer, and parses its reports
gpu_compile_errors    Parses errors from tracing, lowering or compiling a Mosaic GPU kernel
gpu_compile_process   Compiles for a GPU in a child process
gpu_compiler          Compiles with XLA and ptxas in this process, without a GPU
gpu_interpreter       Runs a GPU launch in Mosaic GPU's interpreter on the CPU
gpu_resources         Registers, spills, occupancy, shared memory and instructions of a kernel
gpu_screen            The compiler's numbers for a GPU kernel, on a terminal
gpus                  The table of GPUs, and tracing for one of them
local_gpu             Finds the GPU of this machine, and runs programs on it in a child process
operations            The events of Mosaic GPU's operations, and tables that threads look up
thread                Follows one GPU thread through its trace: its events, in order
thread_block_hazards  Simulates a block of GPU threads in several orders, and finds races
thread_events         Events of a GPU thread on shared memory and barriers, as data
timed_gpu_process     The child process that runs and times a program on the GPU
toolchain             Finds jax's CUDA plugin, ptxas and nvdisasm without importing them
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pallascope.gpu.gpu_compile_errors import GpuRefusal, GpuRefusalKind
    from pallascope.gpu.gpu_compile_process import compiled_for
    from pallascope.gpu.gpu_compiler import Compiled, GpuKernel
    from pallascope.gpu.gpus import CHIPS, GpuChip, named
    from pallascope.gpu.toolchain import NotInstalled, why_not

#: The module of each name. Processes that trace launches import one module of this package; the
#: others are loaded on first use.
_HOMES = {
    **dict.fromkeys(("CHIPS", "GpuChip", "named"), "gpus"),
    "compiled_for": "gpu_compile_process",
    **dict.fromkeys(("Compiled", "GpuKernel"), "gpu_compiler"),
    **dict.fromkeys(("GpuRefusal", "GpuRefusalKind"), "gpu_compile_errors"),
    **dict.fromkeys(("NotInstalled", "why_not"), "toolchain"),
}

__all__ = [
    "CHIPS",
    "Compiled",
    "GpuChip",
    "GpuKernel",
    "GpuRefusal",
    "GpuRefusalKind",
    "NotInstalled",
    "compiled_for",
    "named",
    "why_not",
]


def __getattr__(name: str) -> Any:
    """A name of this package, from its module. Raises AttributeError."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
