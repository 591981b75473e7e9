"""What becomes of one launch on its way to a GPU, as far as it came."""

from __future__ import annotations

from dataclasses import dataclass

from grader.gpu.compiler import Compiled
from grader.gpu.scratch import Buffer
from grader.model import Problem


@dataclass(frozen=True, slots=True)
class OnGpu:
    """A launch, lowered by jax and compiled for `chip`.

    `compiled` holds its kernels, or why jax or the compiler refuse them; None where a `problem` was
    raised before, or nothing compiles here: `not_compiled` says why. `buffers` are what it
    allocates in shared memory, the largest first, where it allocates too much.
    """

    chip: str
    problem: Problem | None = None
    compiled: Compiled | None = None
    not_compiled: str = ""
    lowered: bool = False  # jax has done its part
    buffers: tuple[Buffer, ...] = ()
