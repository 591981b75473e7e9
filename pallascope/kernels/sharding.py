"""shard_map's splits, and a launch run on simulated devices.

A launch for several devices runs on as many devices, which jax simulates on a CPU.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

import jax
import numpy as np
from jax.extend import core
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jax.typing import ArrayLike

from pallascope.kernels.jaxprs import inner_except_kernels, sites
from pallascope.kernels.pallas_params import KERNELS
from pallascope.model import (
    Axes,
    DeviceFault,
    DeviceHazard,
    mesh_size,
)

SHARD_MAP = "shard_map"


def axes_of(eqn: core.JaxprEqn) -> Mapping[str, int]:
    """The axes of devices that have a name within an equation, and their sizes."""
    if eqn.primitive.name != SHARD_MAP:
        return {}
    sizes = eqn.params["mesh"].shape
    return {name: sizes[name] for name in eqn.params["newly_manual_axes"]}


def axes_over(eqn: core.JaxprEqn) -> tuple[str, ...]:
    """The mesh axes of an operation between devices; () for all others."""
    given = eqn.params.get("axes", eqn.params.get("axis_name", ()))
    names = given if isinstance(given, tuple) else (given,)
    return tuple(name for name in names if isinstance(name, str))


def around_kernels(closed: core.ClosedJaxpr) -> dict[int, frozenset[str]]:
    """The mesh axes of the `shard_map` around each kernel, by the id of the kernel's equation."""
    return {
        id(site.eqn): frozenset(axis for around in site.path for axis in axes_of(around))
        for site in sites(closed.jaxpr, inner_except_kernels)
        if site.eqn.primitive.name in KERNELS
    }


def replicated(
    arguments: Sequence[jax.ShapeDtypeStruct],
) -> tuple[jax.ShapeDtypeStruct, ...]:
    """Arguments that are whole on every device of the current mesh."""
    whole = NamedSharding(jax.sharding.get_abstract_mesh(), PartitionSpec())
    return tuple(jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=whole) for a in arguments)


def spread_over(
    axes: Axes,
    function: Callable[..., Sequence[jax.Array]],
    arguments: Sequence[jax.ShapeDtypeStruct],
) -> tuple[Callable[..., Sequence[jax.Array]], tuple[jax.ShapeDtypeStruct, ...]]:
    """A kernel's launch on every device of a mesh at once, and its whole arguments.

    Each array is the parts of all devices, one after the other; numbers are the same for all.
    `for_chip` with these axes.
    """
    count = mesh_size(axes)
    whole = tuple(
        jax.ShapeDtypeStruct((count * a.shape[0], *a.shape[1:]), a.dtype) if a.shape else a
        for a in arguments
    )
    spread = jax.shard_map(
        function,
        mesh=jax.sharding.get_abstract_mesh(),
        in_specs=tuple(split_rows(axes) if a.shape else PartitionSpec() for a in arguments),
        out_specs=split_rows(axes),
        check_vma=False,
    )
    return spread, whole


def split_rows(axes: Axes) -> PartitionSpec:
    """The first dimension, split over all axes of a mesh."""
    return PartitionSpec(tuple(name for name, _ in axes))


class CopiesDiffer(AssertionError):
    """Devices that should have the same result have different ones; `fault` has the details."""

    def __init__(self, fault: DeviceFault) -> None:
        along = " and ".join(f'"{axis}"' for axis in fault.axes)
        super().__init__(
            f"device {fault.device} holds other values than device {fault.other}, which differs "
            f"from it along {along} alone, and out_specs says that both hold the same"
        )
        self.fault = fault


def spread(args: Sequence[ArrayLike], axes: Axes) -> Sequence[ArrayLike]:
    """The arguments, each whole on every device of a mesh; unchanged if there is none.

    Raises ValueError if this process has fewer devices.
    """
    if not axes:
        return args
    count, there = mesh_size(axes), jax.devices("cpu")
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
    """Raises CopiesDiffer unless devices with the same part have the same values."""
    shards = result.addressable_shards
    # As bytes: a NaN equals itself.
    held = [(str(shard.index), np.asarray(shard.data).tobytes()) for shard in shards]
    numbers = np.arange(mesh_size(axes)).reshape([size for _, size in axes])
    differ: dict[str, tuple[int, int]] = {}
    for at, (name, _) in enumerate(axes):
        for line in np.moveaxis(numbers, at, -1).reshape(-1, numbers.shape[at]):
            for first, second in itertools.combinations(map(int, line), 2):
                (part, mine), (other, theirs) = held[first], held[second]
                if part == other and mine != theirs:
                    differ.setdefault(name, (first, second))
    if differ:
        first, second = next(iter(differ.values()))
        kind, count = DeviceHazard.COPIES_DIFFER, mesh_size(axes)
        raise CopiesDiffer(DeviceFault(kind, second, first, count, axes=tuple(differ)))
