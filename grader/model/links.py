"""What a kernel sends over the links between chips, as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Route:
    """Bytes that one chip sends the same way: so many `steps` along the axes of the mesh.

    Of the axes that it goes along, each with its steps; those below zero lead to lower numbers.
    What has two ways of the same length goes both ways, in equal parts.
    """

    steps: tuple[tuple[str, int], ...]
    bytes: int

    @property
    def hops(self) -> int:
        """How many links it passes over."""
        return sum(abs(number) for _, number in self.steps)


def busiest(routes: Sequence[Route]) -> int:
    """What the busiest link carries, in bytes, where every chip sends the same ways as this one."""
    count = Counter[tuple[str, bool]]()
    for route in routes:
        for name, number in route.steps:
            count[name, number > 0] += route.bytes * abs(number)
    return max(count.values(), default=0)


def carried(routes: Sequence[Route]) -> int:
    """What links carry of all of these: bytes times hops."""
    return sum(route.bytes * route.hops for route in routes)
