"""The products that a Blackwell's tensor cores have begun, and how threads learn that they ended.

They end in their order, and arrive at a barrier: all that were begun before the arrival have ended
when its phase has completed and some thread has waited for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from grader.kernels.gpu_events import Part

Barrier = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Product:
    """It reads `operands` and writes `into`, and was begun on this line."""

    operands: tuple[Part, ...]
    into: Part
    line: int


@dataclass(slots=True)
class Products:
    """Of one block, from whatever thread."""

    _begun: list[Product] = field(default_factory=list)
    _ended: int = 0
    _told: dict[tuple[Barrier, int], int] = field(default_factory=dict)

    def begin(self, product: Product) -> None:
        self._begun.append(product)

    def arrive(self, barrier: Barrier, phase: int) -> None:
        """Those begun so far arrive: they are a part of this phase of the barrier."""
        self._told[barrier, phase] = len(self._begun)

    def waited(self, barrier: Barrier, phase: int) -> None:
        """A thread has waited for this phase."""
        self._ended = max(self._ended, self._told.get((barrier, phase), 0))

    def reading(self, part: Part) -> int | None:
        """The line of a product that may still be reading a part; None where there is none."""
        return next((one.line for one in self._left() if _meet(one.operands, part)), None)

    def writing(self, part: Part) -> int | None:
        """The line of a product that may still be writing a part; None where there is none."""
        return next((one.line for one in self._left() if _meet((one.into,), part)), None)

    def _left(self) -> Sequence[Product]:
        return self._begun[self._ended :]


def _meet(parts: Sequence[Part], other: Part) -> bool:
    return any(part.surely_meets(other) for part in parts)
