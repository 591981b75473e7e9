"""Encoders of numbers, arrays, their types, and meshes.

Types are those of arrays, of shardings and of meshes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import ml_dtypes
import numpy as np

from pallascope.kernels.jax_internals import (
    ArrayImpl,
    ExtendedDType,
    NamedSharding,
    PartitionSpec,
    TypedFloat,
    TypedInt,
    TypedNdArray,
    mesh,
    prng,
)
from pallascope.kernels.jax_internals import jax_core as core
from pallascope.kernels.serialization.encoding import (
    MOST_ARRAY_BYTES,
    MOST_RANK,
    Form,
    NotSerializable,
    interned,
)

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


def type_forms() -> Iterator[Form]:
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
    """A mesh for the chip of the context: the trace doesn't name the chip that judges a launch."""
    kinds = (tuple, tuple, (tuple, type(None)), (mesh.AbstractDevice, type(None)))
    for part, kind in zip((sizes, names, types, device), kinds, strict=True):
        if not isinstance(part, kind):
            raise TypeError("a mesh is sizes, names, types and a device")
    here = mesh.get_abstract_mesh().abstract_device
    return mesh.AbstractMesh(sizes, names, types, abstract_device=device and here)


def _no_devices(one: Any) -> tuple[()]:
    if not one.empty:
        raise NotSerializable("a mesh of devices that exist")
    return ()


def _sharding_parts(one: Any) -> tuple[Any, ...]:
    return one.mesh, one.spec, one.memory_kind


def _sharding(on: Any, spec: Any, memory_kind: Any) -> Any:
    if not isinstance(on, (mesh.AbstractMesh, mesh.Mesh)) or not isinstance(spec, _SPEC):
        raise TypeError("a sharding is a mesh and a spec")
    return NamedSharding(on, spec, memory_kind=memory_kind)


_SCALAR_TYPE = type(jax.numpy.float32)


def array_forms() -> Iterator[Form]:
    """The forms of numbers, arrays and dtypes. Those of NumPy also cover their subclasses."""
    yield Form("TypedInt", TypedInt, lambda one: (int(one), one.dtype), TypedInt)
    yield Form("TypedFloat", TypedFloat, lambda one: (float(one), one.dtype), TypedFloat)
    yield Form("TypedNdArray", TypedNdArray, _typed_parts, _typed)
    yield Form("array", np.ndarray, array_parts, array)
    yield Form("device array", ArrayImpl, _device_parts, _from_device)
    yield Form("scalar type", _SCALAR_TYPE, lambda one: (one.dtype,), lambda of: _scalars()[of])
    yield Form("key array", prng.PRNGKeyArray, _key_parts, _keys)
    yield Form("number", np.generic, array_parts, lambda *parts: array(*parts)[()])
    yield Form("dtype", np.dtype, _dtype_name, lambda name: _dtypes()[name])
    yield Form("key kind", prng.PRNGImpl, lambda one: (_key_kind(one),), _kind)
    yield Form("key dtype", prng.KeyTy, lambda one: (_key_kind(one._impl),), _key_type)


@functools.cache
def _scalars() -> Mapping[np.dtype, Any]:
    """jnp.bfloat16 and the like, which aren't dtypes, but parameters of some operations."""
    known = vars(jax.numpy).values()
    return {one.dtype: one for one in known if isinstance(one, _SCALAR_TYPE)}


@functools.cache
def _dtypes() -> Mapping[str, np.dtype]:
    names = ["bool", "float16", "float32", "float64", "complex64", "complex128"]
    names += [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
    more = [getattr(ml_dtypes, name) for name in dir(ml_dtypes)]
    own = [np.dtype(one) for one in more if isinstance(one, type) and issubclass(one, np.generic)]
    tokens = [np.dtype([("float0", np.void, 0)])]
    return {dtype.name: dtype for dtype in [*map(np.dtype, names), *own, *tokens]}


def _dtype_name(dtype: np.dtype) -> tuple[str]:
    if _dtypes().get(dtype.name) != dtype:
        raise NotSerializable(f"numbers of the type {dtype}")
    return (dtype.name,)


def array_parts(value: Any) -> tuple[Any, ...]:
    """An array as dtype, shape and bytes. Raises NotSerializable for a large one."""
    held = np.asarray(value)
    if held.nbytes > MOST_ARRAY_BYTES:
        size = f"{held.dtype.name}[{','.join(map(str, held.shape))}]"
        raise NotSerializable(f"a constant {size} of {held.nbytes >> 20} MiB")
    if held.dtype == object:
        raise NotSerializable("an array of objects")
    return held.dtype, held.shape, held.tobytes()


def array(dtype: np.dtype, shape: tuple[int, ...], data: bytes) -> np.ndarray:
    """An array from its parts. Raises ValueError if they don't fit together."""
    if not isinstance(dtype, np.dtype) or dtype.hasobject or not isinstance(data, bytes):
        raise TypeError("an array is bytes of a number type")
    if len(shape) > MOST_RANK or len(data) > MOST_ARRAY_BYTES or min(shape, default=0) < 0:
        raise ValueError(f"an array of the shape {shape}")
    if math.prod(shape) * dtype.itemsize != len(data):
        raise ValueError(f"{len(data)} bytes for an array of the shape {shape}")
    if not dtype.itemsize:  # float0, the type of an integer's gradient
        return np.zeros(shape, dtype)
    return np.frombuffer(data, dtype).reshape(shape).copy()


def objects(members: Sequence[object], shape: tuple[int, ...]) -> np.ndarray:
    """An array of Python objects."""
    made = np.empty(len(members), object)
    made[:] = members
    return made.reshape(shape)


def _typed_parts(value: Any) -> tuple[Any, ...]:
    return *array_parts(value), value.aval


def _typed(dtype: np.dtype, shape: tuple[int, ...], data: bytes, aval: Any) -> Any:
    if not isinstance(aval, core.ShapedArray) or (aval.shape, aval.dtype) != (shape, dtype):
        raise TypeError("an array's type is another")
    return TypedNdArray(array(dtype, shape, data), aval)


def _device_parts(value: Any) -> tuple[Any, ...]:
    return *array_parts(value), bool(value.weak_type)


def _from_device(dtype: np.dtype, shape: tuple[int, ...], data: bytes, weak: bool) -> Any:
    """An array on the host, which JAX treats like one with the same type."""
    aval = core.ShapedArray(shape, dtype, weak_type=bool(weak))
    return TypedNdArray(array(dtype, shape, data), aval)


def _key_kind(implementation: Any) -> str:
    if prng.prngs.get(implementation.name) is not implementation:
        raise NotSerializable(f"random keys of the kind {implementation.name}")
    return implementation.name


def _kind(name: str) -> Any:
    return prng.prngs[name]


def _key_type(name: str) -> Any:
    return prng.KeyTy(_kind(name))


def _key_parts(keys: Any) -> tuple[Any, ...]:
    return _key_kind(keys._impl), np.asarray(jax.random.key_data(keys))


def _keys(name: str, data: Any) -> Any:
    if not isinstance(data, np.ndarray):
        raise TypeError("random keys are made of an array")
    return jax.random.wrap_key_data(jax.numpy.asarray(data), impl=_kind(name).name)
