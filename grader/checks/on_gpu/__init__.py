"""The rungs of a launch for GPUs, most of which need none.

interpreted   ★ what Mosaic GPU's interpreter and the trace show: right, and by more than luck?
races         two accesses that nothing orders, in words
disorder      what a trace shows and no interpreter does, in words
raised        what the interpreter raises, in words
traced        what jax refuses while a launch is traced
refused       why jax, or the compiler, refuses a kernel
lowers        ★★ does jax lower it for the GPU? Needs jax alone
compiles      ★★ does it compile, fit, spill nothing and use what it is about? Needs the extra
ran           ★★ is it right on the GPU that is here? Asks nothing without one
timed         ★★★ how long does it take? Needs the GPU
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from grader.model import Check, NotJudged, OnGpu
from grader.tools import codec

if TYPE_CHECKING:
    from grader.gpu import Compiled


def missing() -> NotJudged | None:
    """What no launch for GPUs can be traced without, if this environment was made before it was a
    dependency."""
    if importlib.util.find_spec("absl") is not None:
        return None
    return NotJudged(Check.RUNS, "Mosaic GPU needs absl-py: pip install absl-py")


def compiled_of(on_gpu: OnGpu) -> Compiled | None:
    """The kernels of a launch, or why they are refused; None where nothing came of it."""
    from grader.gpu import Compiled

    return codec.unpack(Compiled, on_gpu.compiled) if on_gpu.compiled else None
