"""Guards: arrays with a pattern, put on the GPU before, between and after a launch's buffers.

jax gives no array a place, so nobody can promise that a guard lies next to a buffer. Arrays that
are made one after the other mostly do lie so, and jax tells where: what is counted as guarded is a
side of a buffer at which a guard begins or ends, within what the allocator rounds up to. A store
that leaves its buffer, and hits neither guard nor input, is not found here: memcheck finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

SIZE = 1 << 16  # bytes of a guard
PATTERN = 0xA5
#: Allocations begin at multiples of so many bytes; what rounding up leaves is in no array.
GAP = 512
#: What results are filled with before a launch: NaN in each floating dtype of 16 bits and more.
FILL = 0xFF

#: Where an array lies: its first address, and its bytes.
Extent = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Buffer:
    """One input or result of a launch, and where it lay before."""

    name: str
    extent: Extent


@dataclass(frozen=True, slots=True)
class Layout:
    """Arrays on the device, in the order of their making: a guard first, and behind each buffer."""

    arrays: list[Any]
    buffers: tuple[Buffer, ...]
    guards: list[Any]
    extents: tuple[Extent, ...]  # of the guards

    def guarded(self) -> int:
        """How many sides of all buffers have a guard next to them."""
        ends = sum(any(_meet(b.extent, g) for g in self.extents) for b in self.buffers)
        starts = sum(any(_meet(g, b.extent) for g in self.extents) for b in self.buffers)
        return ends + starts

    def trampled(self) -> tuple[str, ...]:
        """The guards that hold something else than they did, in words."""
        found = []
        for guard, extent in zip(self.guards, self.extents, strict=True):
            changed = np.flatnonzero(np.asarray(guard) != PATTERN)
            if changed.size:
                found.append(self._where(extent, int(changed[0]), changed.size))
        return tuple(found)

    def _where(self, guard: Extent, first: int, many: int) -> str:
        """The side that is nearer to the first byte that has changed."""
        before = [b.name for b in self.buffers if _meet(b.extent, guard)]
        after = [b.name for b in self.buffers if _meet(guard, b.extent)]
        told = f"{many} byte{'' if many == 1 else 's'}"
        if before and (first < guard[1] // 2 or not after):
            return f"{told} right after {before[0]}"
        if after:
            return f"{told} right before {after[0]}"
        return f"{told} of memory that no input or result holds"


def lay_out(
    values: Sequence[tuple[str, np.ndarray]], device: Any, extent: Callable[[Any], Extent]
) -> Layout:
    """Put arrays on the device, each by its name, with guards around them."""
    import jax

    def put(value: np.ndarray) -> Any:
        return jax.block_until_ready(jax.device_put(value.copy(), device))

    pattern = np.full(SIZE, PATTERN, np.uint8)
    arrays, guards = [], [put(pattern)]
    for _, value in values:
        arrays.append(put(value))
        guards.append(put(pattern))
    names = [name for name, _ in values]
    buffers = tuple(Buffer(n, extent(a)) for n, a in zip(names, arrays, strict=True))
    return Layout(arrays, buffers, guards, tuple(map(extent, guards)))


def extent_of(array: Any) -> Extent:
    """Where jax says that an array of one device lies."""
    return array.unsafe_buffer_pointer(), array.nbytes


def filled(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """What a result holds before the launch, so that what is never written is seen."""
    size = int(np.prod(shape)) * dtype.itemsize
    if dtype == np.bool_:
        return np.zeros(shape, dtype)
    return np.full(size, FILL, np.uint8).view(dtype).reshape(shape)


def _meet(first: Extent, second: Extent) -> bool:
    """Whether the second begins where the first ends."""
    return 0 <= second[0] - (first[0] + first[1]) < GAP
