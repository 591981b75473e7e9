"""Which ways a copy takes from one chip of a mesh to another."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from grader.kernels.scalars import Number

#: The numbers of a chip along the axes of the mesh.
Place = tuple[int, ...]
#: Of the axes that it goes along, each with its steps; those below zero lead to lower numbers.
Way = tuple[tuple[str, int], ...]


def receiver(
    device: Any, chip: Mapping[str, int], sizes: Mapping[str, int], number: Callable[[Any], Number]
) -> Place | None:
    """The chip that `device` names, the `device_id` of a copy that `chip` starts.

    That is a number for each axis, numbers by the names of axes, or one number for all; `number`
    says what each is. None where that is not known, or where there is no such chip.
    """
    if isinstance(device, Mapping):
        if not set(device) <= set(sizes):
            return None
        found = [number(device[name]) if name in device else chip[name] for name in sizes]
    elif isinstance(device, (tuple, list)):
        found = [number(one) for one in device]
    else:
        found = _of_all(number(device), tuple(sizes.values()))
    there = len(found) == len(sizes) and all(
        one is not None and 0 <= int(one) < size
        for one, size in zip(found, sizes.values(), strict=False)
    )
    return tuple(int(one or 0) for one in found) if there else None


def _of_all(number: Number, sizes: Sequence[int]) -> list[Number]:
    """The numbers along the axes of a chip that has this number among all."""
    if number is None or not 0 <= int(number) < math.prod(sizes):
        return []
    found: list[Number] = []
    left = int(number)
    for size in reversed(sizes):
        left, along = divmod(left, size)
        found.insert(0, along)
    return found


def ways(sender: Sequence[int], target: Sequence[int], sizes: Mapping[str, int]) -> tuple[Way, ...]:
    """The shortest ways along the axes, each of which is a ring: its last chip is beside the first.

    There are several where both ways round a ring are as short.
    """
    each = [
        [(name, number) for number in _steps((end - start) % size, size)]
        for (name, size), start, end in zip(sizes.items(), sender, target, strict=True)
    ]
    return tuple(
        tuple((name, number) for name, number in steps if number)
        for steps in itertools.product(*each)
    )


def _steps(up: int, size: int) -> tuple[int, ...]:
    """How far it is to a chip that is `up` further on in a ring; two are beside each other once."""
    if size > 2 and 2 * up == size:
        return up, -up
    return (up if 2 * up <= size else up - size,)
