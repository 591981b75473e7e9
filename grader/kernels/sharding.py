"""What a `shard_map` in a trace says: over which axes of a mesh it splits, and how."""

from __future__ import annotations

from collections.abc import Mapping

from jax.extend import core

SHARD_MAP = "shard_map"


def axes_of(eqn: core.JaxprEqn) -> Mapping[str, int]:
    """The axes of devices that have a name within an equation, and their sizes."""
    if eqn.primitive.name != SHARD_MAP:
        return {}
    sizes = eqn.params["mesh"].shape
    return {name: sizes[name] for name in eqn.params["newly_manual_axes"]}
