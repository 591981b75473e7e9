"""The forms of types: of arrays, of where they lie, of meshes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from grader.kernels.carrier.errors import NotCarried
from grader.kernels.carrier.forms import Form, interned
from grader.kernels.carrier.limits import MOST_RANK
from grader.kernels.jax_internals import ExtendedDType, NamedSharding, PartitionSpec, mesh
from grader.kernels.jax_internals import jax_core as core

_ARRAY = (
    "shape",
    "dtype",
    "weak_type",
    "sharding",
    "manual_axis_type",
    "memory_space",
    "layout",
)
_MANUAL = ("varying", "unreduced", "reduced", "unreduced_kind")
_SPEC: Any = PartitionSpec


def forms() -> Iterator[Form]:
    """The forms of abstract arrays, shardings and meshes."""
    yield interned(core.ShapedArray, _ARRAY, _sound_array)
    yield interned(core.ManualAxisType, _MANUAL, _sound_axes)
    yield interned(_SPEC, ("_partitions", *_MANUAL[1:]), _sound_spec)
    yield Form("AbstractMesh", mesh.AbstractMesh, _mesh_parts, _mesh)
    yield Form("Mesh", mesh.Mesh, _no_devices, lambda: mesh.empty_concrete_mesh)
    yield Form("NamedSharding", NamedSharding, _sharding_parts, _sharding)


def _sound_array(*parts: Any) -> None:
    shape, dtype, weak, sharding = parts[:4]
    if type(shape) is not tuple or not all(type(n) is int and n >= 0 for n in shape):
        raise TypeError("a shape is a tuple of sizes")
    if not isinstance(dtype, (np.dtype, ExtendedDType)) or type(weak) is not bool:
        raise TypeError("an array has a dtype")
    if not isinstance(sharding, NamedSharding) or not isinstance(parts[4], core.ManualAxisType):
        raise TypeError("an array has a sharding")
    if len(shape) > MOST_RANK or len(sharding.spec.partitions) != len(shape):
        raise ValueError(f"an array of {len(shape)} dimensions")


def _sound_axes(*parts: Any) -> None:
    if not all(isinstance(names, frozenset) for names in parts[:3]):
        raise TypeError("axes are a set of names")


def _sound_spec(*parts: Any) -> None:
    if type(parts[0]) is not tuple or not all(isinstance(n, frozenset) for n in parts[1:3]):
        raise TypeError("a spec is a tuple of names")


def _mesh_parts(one: Any) -> tuple[Any, ...]:
    return one.axis_sizes, one.axis_names, one.axis_types, one.abstract_device


def _mesh(sizes: Any, names: Any, types: Any, device: Any) -> Any:
    """A mesh for the chip of the surroundings: which one a launch is judged on, it doesn't say."""
    kinds = (tuple, tuple, (tuple, type(None)), (mesh.AbstractDevice, type(None)))
    for part, kind in zip((sizes, names, types, device), kinds, strict=True):
        if not isinstance(part, kind):
            raise TypeError("a mesh is sizes, names, types and a device")
    here = mesh.get_abstract_mesh().abstract_device
    return mesh.AbstractMesh(sizes, names, types, abstract_device=device and here)


def _no_devices(one: Any) -> tuple[()]:
    if not one.empty:
        raise NotCarried("a mesh of devices that exist")
    return ()


def _sharding_parts(one: Any) -> tuple[Any, ...]:
    return one.mesh, one.spec, one.memory_kind


def _sharding(on: Any, spec: Any, memory_kind: Any) -> Any:
    if not isinstance(on, (mesh.AbstractMesh, mesh.Mesh)) or not isinstance(spec, _SPEC):
        raise TypeError("a sharding is a mesh and a spec")
    return NamedSharding(on, spec, memory_kind=memory_kind)
