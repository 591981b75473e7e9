"""A launch for several devices, on as many that jax simulates on a CPU."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jax.typing import ArrayLike

from grader.model import Axes, Between, DeviceFault, devices_of


class CopiesDiffer(AssertionError):
    """Devices that should all hold the same result hold different ones, as `fault` says."""

    def __init__(self, fault: DeviceFault) -> None:
        along = " and ".join(f'"{axis}"' for axis in fault.axes)
        super().__init__(
            f"device {fault.device} holds other values than device {fault.other}, which differs "
            f"from it along {along} alone, and out_specs says that both hold the same"
        )
        self.fault = fault


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
        _demand_same(result, axes)
    return np.asarray(result)


def _demand_same(result: jax.Array, axes: Axes) -> None:
    """Raises CopiesDiffer unless devices that hold the same part hold the same values."""
    shards = result.addressable_shards
    # As bytes: a NaN is the same as itself.
    held = [(str(shard.index), np.asarray(shard.data).tobytes()) for shard in shards]
    numbers = np.arange(devices_of(axes)).reshape([size for _, size in axes])
    differ: dict[str, tuple[int, int]] = {}
    for at, (name, _) in enumerate(axes):
        for line in np.moveaxis(numbers, at, -1).reshape(-1, numbers.shape[at]):
            for first, second in itertools.combinations(map(int, line), 2):
                (part, mine), (other, theirs) = held[first], held[second]
                if part == other and mine != theirs:
                    differ.setdefault(name, (first, second))
    if differ:
        first, second = next(iter(differ.values()))
        kind, count = Between.COPIES_DIFFER, devices_of(axes)
        raise CopiesDiffer(DeviceFault(kind, second, first, count, axes=tuple(differ)))
