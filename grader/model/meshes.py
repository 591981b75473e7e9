"""The mesh of devices that a launch is for: named axes, and how many devices lie along each."""

from __future__ import annotations

import math

#: In order, outermost first. Without axes, a launch is for a single device.
Axes = tuple[tuple[str, int], ...]


def devices_of(axes: Axes) -> int:
    """How many devices a mesh has."""
    return math.prod(size for _, size in axes)
