"""How long a kernel keeps a block, and which grid axis makes it let go: words for messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Reuse:
    """One operand's block over the grid.

    `axis` is the innermost grid axis along which the block changes, None where it never does. It is
    kept for `least` to `most` consecutive steps; `innermost` is the last grid axis of more than one
    step.
    """

    axis: int | None
    innermost: int | None
    least: int
    most: int

    @property
    def kept(self) -> str:
        """For how many steps a block stays: "8 steps"."""
        many = f"{self.least} to {self.most}" if self.least < self.most else f"{self.most}"
        return f"{many} step{'s' * (self.most != 1)}"

    def __str__(self) -> str:
        if self.axis is None:
            return "its block never changes"
        if self.most == 1 and self.axis == self.innermost:
            return f"its index map changes on every step of the innermost axis (axis {self.axis})"
        return f"its index map changes along axis {self.axis}; its block is kept for {self.kept}"


def reuse(grid: Sequence[int], starts: np.ndarray[Any, Any]) -> Reuse:
    """How an operand's block is reused. `starts` are int32[steps, rank], as of `Kernel.blocks`."""
    wide = [axis for axis, size in enumerate(grid) if size > 1]
    rank = starts.shape[1]
    per_axis = starts.reshape(*grid, rank)
    changing = [a for a in wide if (np.diff(per_axis, axis=a) != 0).any()]
    edges = np.flatnonzero((np.diff(starts, axis=0) != 0).any(axis=1)) + 1
    runs = np.diff(edges, prepend=0, append=len(starts))
    return Reuse(
        axis=changing[-1] if changing else None,
        innermost=wide[-1] if wide else None,
        least=int(runs.min()),
        most=int(runs.max()),
    )
