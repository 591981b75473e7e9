"""Over which axes of a mesh a `shard_map` splits, and one kernel on all devices of a mesh."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import jax
from jax.extend import core
from jax.sharding import PartitionSpec

from grader.model import Axes, devices_of

SHARD_MAP = "shard_map"


def axes_of(eqn: core.JaxprEqn) -> Mapping[str, int]:
    """The axes of devices that have a name within an equation, and their sizes."""
    if eqn.primitive.name != SHARD_MAP:
        return {}
    sizes = eqn.params["mesh"].shape
    return {name: sizes[name] for name in eqn.params["newly_manual_axes"]}


def spread_over(
    axes: Axes,
    function: Callable[..., Sequence[jax.Array]],
    arguments: Sequence[jax.ShapeDtypeStruct],
) -> tuple[Callable[..., Sequence[jax.Array]], tuple[jax.ShapeDtypeStruct, ...]]:
    """A kernel's launch on every device of a mesh at once, and its whole arguments.

    Each array is the parts of all devices below each other; a number is the same for all. Within
    `for_chip` with these axes.
    """
    count = devices_of(axes)
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
