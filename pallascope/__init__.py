"""Reads, interprets, checks, compiles and predicts Pallas kernels on a machine without a TPU.

It knows nothing of katas; `grader` does, and imports it. README.md has examples of the names below.

model           values that all rooms share: kernels, faults and observations as data
tools           arrays and frozen values as bytes, text, Python files

kernels         a function's kernels as data; the strict interpreter; a traced launch as bytes
tpu             the TPU's compiler, its schedule executed, predicted times, advice
gpu             Mosaic GPU kernels: followed, interpreted, compiled, run

runs            traced launches run in a process without their files
checks          what is wrong with a launch, and why, in messages for its author
testing         tests of kernels: Pallas.check, .accepted, .cost, for any test runner
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pallascope.gpu import compiled_for
    from pallascope.kernels import CopyWatch, TracedLaunch, watching, watching_copies
    from pallascope.model import Mode
    from pallascope.testing.kernel_tests import KernelFault, KernelNotJudged, LaunchCost, Pallas
    from pallascope.tpu import Prediction, predictions

#: The module of each public name. `import pallascope` loads none of them, and no jax.
_HOMES = {
    "compiled_for": "gpu",
    **dict.fromkeys(("CopyWatch", "TracedLaunch", "watching", "watching_copies"), "kernels"),
    "Mode": "model",
    **dict.fromkeys(
        ("KernelFault", "KernelNotJudged", "LaunchCost", "Pallas"), "testing.kernel_tests"
    ),
    **dict.fromkeys(("Prediction", "predictions"), "tpu"),
}

__all__ = [
    "CopyWatch",
    "KernelFault",
    "KernelNotJudged",
    "LaunchCost",
    "Mode",
    "Pallas",
    "Prediction",
    "TracedLaunch",
    "compiled_for",
    "predictions",
    "watching",
    "watching_copies",
]


def __getattr__(name: str) -> Any:
    """A public name, from its module. Raises AttributeError."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
