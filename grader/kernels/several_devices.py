"""A launch for several devices, on as many that jax simulates on a CPU."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jax.typing import ArrayLike

from grader.model import Axes, devices_of


class CopiesDiffer(AssertionError):
    """Devices that should all hold the same result hold different ones."""


def spread(args: Sequence[ArrayLike], axes: Axes) -> Sequence[ArrayLike]:
    """The arguments, each whole on every device of a mesh; as they are where there is none.

    Raises ValueError where this process has fewer devices.
    """
    if not axes:
        return args
    count, there = devices_of(axes), jax.devices("cpu")
    if len(there) < count:
        raise ValueError(f"a mesh of {count} devices, in a process that has {len(there)}")
    names, sizes = tuple(name for name, _ in axes), tuple(size for _, size in axes)
    devices = np.array(there[:count]).reshape(sizes)
    mesh = Mesh(devices, names, axis_types=(AxisType.Auto,) * len(axes))
    return [jax.device_put(arg, NamedSharding(mesh, PartitionSpec())) for arg in args]


def whole(result: jax.Array, axes: Axes) -> np.ndarray:
    """A result with all of its parts. Raises CopiesDiffer."""
    if axes:
        _demand_same(result)
    return np.asarray(result)


def _demand_same(result: jax.Array) -> None:
    """Raises CopiesDiffer unless devices that hold the same part hold the same values."""
    first: dict[str, tuple[int, np.ndarray]] = {}
    for number, shard in enumerate(result.addressable_shards):
        mine = np.asarray(shard.data)
        other, theirs = first.setdefault(str(shard.index), (number, mine))
        # As bytes: a NaN is the same as itself.
        if mine.tobytes() != theirs.tobytes():
            raise CopiesDiffer(
                f"device {number} holds other values than device {other}, and out_specs says that "
                "both hold the same part of the result"
            )
