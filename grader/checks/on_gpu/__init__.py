"""The rungs of a launch for GPUs, most of which need none.

gpu_compiles     ★★ Do jax and a GPU's compiler accept the kernel, without spills?
gpu_hardware     ★★ and ★★★ Is it right and fast on the GPU of this machine?
gpu_interpreted  ★ Is it right in Mosaic GPU's interpreter, and without races?
gpu_refused      Messages about refusals of jax and of a GPU's compiler
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from grader.verdict import Check, NotJudged
from pallascope.model import OnGpu
from pallascope.tools import codec

if TYPE_CHECKING:
    from pallascope.gpu import Compiled


def missing() -> NotJudged | None:
    """What no launch for GPUs can be traced without, if this environment was made before it was a
    dependency."""
    if importlib.util.find_spec("absl") is not None:
        return None
    return NotJudged(Check.RUNS, "Mosaic GPU needs absl-py: pip install absl-py")


def compiled_of(on_gpu: OnGpu) -> Compiled | None:
    """The kernels of a launch, or why they are refused; None where nothing came of it."""
    from pallascope.gpu import Compiled

    return codec.unpack(Compiled, on_gpu.compiled) if on_gpu.compiled else None
