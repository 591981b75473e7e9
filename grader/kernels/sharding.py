"""Over which axes of a mesh a `shard_map` splits, and one kernel on all devices of a mesh."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import jax
from jax.extend import core
from jax.sharding import NamedSharding, PartitionSpec

from grader.kernels.jaxprs import inner_jaxprs
from grader.kernels.pallas_params import KERNELS
from grader.model import Axes, devices_of

SHARD_MAP = "shard_map"


def axes_of(eqn: core.JaxprEqn) -> Mapping[str, int]:
    """The axes of devices that have a name within an equation, and their sizes."""
    if eqn.primitive.name != SHARD_MAP:
        return {}
    sizes = eqn.params["mesh"].shape
    return {name: sizes[name] for name in eqn.params["newly_manual_axes"]}


def axes_over(eqn: core.JaxprEqn) -> tuple[str, ...]:
    """The axes of a mesh that an operation between devices goes over; () of all others."""
    given = eqn.params.get("axes", eqn.params.get("axis_name", ()))
    names = given if isinstance(given, tuple) else (given,)
    return tuple(name for name in names if isinstance(name, str))


def around_kernels(closed: core.ClosedJaxpr) -> dict[int, frozenset[str]]:
    """By the id of each kernel's equation, the axes of a mesh that a `shard_map` around it has."""
    found: dict[int, frozenset[str]] = {}

    def read(jaxpr: core.Jaxpr, within: frozenset[str]) -> None:
        for eqn in jaxpr.eqns:
            if eqn.primitive.name in KERNELS:
                found[id(eqn)] = within
                continue
            for inner in inner_jaxprs(eqn):
                read(inner, within | {*axes_of(eqn)})

    read(closed.jaxpr, frozenset())
    return found


def replicated(
    arguments: Sequence[jax.ShapeDtypeStruct],
) -> tuple[jax.ShapeDtypeStruct, ...]:
    """Arguments that are whole on every device of the mesh that is set."""
    whole = NamedSharding(jax.sharding.get_abstract_mesh(), PartitionSpec())
    return tuple(jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=whole) for a in arguments)


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
