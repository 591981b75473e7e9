"""What a GPU would make of a Mosaic GPU kernel, found out without one.

    chips          the table of chips: shared memory, registers and the like, each with its source
    toolchain      jax's CUDA plugin, ptxas and nvdisasm: whether they are here, and what to install
    programs       a function with kernels, traced and lowered for a GPU: StableHLO, as data
    compile_apart  such a program compiled in a process of its own, within a time: compile_child
    compiler       the compilation itself, and reading all that it leaves behind
    launches       grid, threads and dynamic shared memory of each kernel, from MLIR
    resources      registers, spills and static shared memory, from what ptxas prints
    sass           the instruction mix, from nvdisasm's listing: wgmma, tcgen05, TMA, local memory
    occupancy      how many blocks a multiprocessor holds at once, and what bounds that
    refusals       why a kernel can't be traced, lowered or compiled, in words
    scratch        what a kernel allocates in shared memory, from its trace
    running        such a program run on a GPU that is here: a package of its own
    screen         all of this on a terminal;  `python -m grader.gpu` is __main__

jax is imported when a function that needs it is called. Tracing and lowering need jax alone, and
find most refusals; compiling needs the extra "gpu".
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grader.gpu.chips import CHIPS, Chip, named
    from grader.gpu.compile_apart import compiled_for
    from grader.gpu.compiler import Compiled, Kernel
    from grader.gpu.refusals import Failure, Kind
    from grader.gpu.toolchain import NotInstalled, why_not

#: Where each name is. Processes that trace launches import two modules of this package; the rest
#: is loaded for who asks for it.
_HOMES = {
    **dict.fromkeys(("CHIPS", "Chip", "named"), "chips"),
    "compiled_for": "compile_apart",
    **dict.fromkeys(("Compiled", "Kernel"), "compiler"),
    **dict.fromkeys(("Failure", "Kind"), "refusals"),
    **dict.fromkeys(("NotInstalled", "why_not"), "toolchain"),
}

__all__ = [
    "CHIPS",
    "Chip",
    "Compiled",
    "Failure",
    "Kernel",
    "Kind",
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
