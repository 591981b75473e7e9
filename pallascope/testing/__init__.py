"""Tests of anybody's Pallas TPU kernels, on a machine without a TPU.

kernel_tests  `Pallas`: strict runs against a reference, refusals of the compiler, predicted costs
strategies    hypothesis strategies for shapes, blocks and group sizes that a TPU takes
"""

from pallascope.testing.kernel_tests import (
    Cost,
    KernelFault,
    KernelNotJudged,
    Pallas,
)

__all__ = ["Cost", "KernelFault", "KernelNotJudged", "Pallas"]
