"""Encoders of Pallas' objects, for TPUs and Mosaic GPU.

Most classes are taken apart attribute by attribute. The classes of Pallas' Mosaic GPU backend are
known only to a process that judges a launch for a GPU: importing the backend takes 0.3 s.
"""

from __future__ import annotations

import dataclasses
import importlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from pallascope.kernels.jax_internals import (
    DATACLASSES,
    ENUMS,
    GPU_COMPILER_PARAMS,
    GPU_CORE,
    GPU_DATACLASSES,
    GPU_ENUMS,
    GPU_SINGLES,
    GPU_SLOTTED,
    NAMED_TUPLES,
    SLOTTED,
    TENSOR_CORE_MESHES,
    TENSOR_CORES,
    UnsupportedJax,
    found,
)
from pallascope.kernels.jax_internals import mosaic_core as mosaic
from pallascope.kernels.jax_internals import pallas_core as core
from pallascope.kernels.serialization.array_encoders import objects
from pallascope.kernels.serialization.encoding import (
    MOST_GRID_DIMENSIONS,
    Form,
    NotSerializable,
    filled,
    member,
    named,
    only_to_run,
    row,
    single,
)


def class_forms() -> Iterator[Form]:
    """The forms of these classes, as far as this JAX has them."""
    for make, table in ((member, ENUMS), (row, NAMED_TUPLES), (filled, DATACLASSES)):
        yield from map(make, found(table))
    yield from slotted(SLOTTED)


def slotted(table: dict[str, dict[str, tuple[str, ...]]]) -> Iterator[Form]:
    """The forms of classes whose attributes a table names, as far as this JAX has them."""
    for module, attributes in table.items():
        for name, names in attributes.items():
            yield from (filled(kind, names) for kind in found({module: name}))


def kernel_forms() -> Iterator[Form]:
    """The forms of grids, compiler parameters, TensorCores and semaphores."""
    yield _grid_mapping()
    yield _compiler_params()
    yield from _tensor_cores()
    for kind in (mosaic.DMASemaphore, core.Semaphore, core.BarrierSemaphore):
        yield filled(kind, ())


def _grid_mapping() -> Form:
    form = filled(core.GridMapping)

    def build(*parts: Any) -> Any:
        mapping = form.build(*parts)
        if not isinstance(mapping.grid, tuple) or len(mapping.grid) > MOST_GRID_DIMENSIONS:
            raise ValueError("a grid of too many dimensions")
        if not all(type(n) is int or n is core.dynamic_grid_dim for n in mapping.grid):
            raise TypeError("a grid is a tuple of sizes")
        return mapping

    return dataclasses.replace(form, build=build)


def _compiler_params() -> Form:
    form = filled(mosaic.CompilerParams)

    def parts(params: Any) -> Iterable[Any]:
        if params.flags and not only_to_run.get():
            raise NotSerializable("the flags of CompilerParams")
        return form.parts(dataclasses.replace(params, flags=None) if params.flags else params)

    def build(*parts: Any) -> Any:
        params = form.build(*parts)
        if params.flags:
            raise ValueError("flags for the compiler")
        return params

    return dataclasses.replace(form, parts=parts, build=build)


def _tensor_cores() -> Iterator[Form]:
    for kind in found(TENSOR_CORE_MESHES):
        if next(found(TENSOR_CORES), None) is None:  # jax 0.12
            yield filled(kind)
        else:
            yield Form(named(kind), kind, _core_parts, _cores)


def _core_parts(mesh: Any) -> tuple[Any, ...]:
    return mesh.devices.shape, tuple(one.id for one in mesh.devices.flat), mesh.axis_names


def _cores(shape: tuple[int, ...], ids: tuple[int, ...], names: tuple[str, ...]) -> Any:
    one, whole = (getattr(mosaic, name) for name in ("TensorCore", "TensorCoreMesh"))
    return whole(objects([one(number) for number in ids], shape), names)


def is_wanted() -> bool:
    """Whether this process has imported the backend."""
    return GPU_CORE in sys.modules


def make_known() -> None:
    """Import the backend. Raises UnsupportedJax, and ImportError if absl-py is missing."""
    importlib.import_module("jax.experimental.pallas.mosaic_gpu")
    if not is_wanted():
        raise UnsupportedJax(GPU_CORE)


def mosaic_gpu_forms() -> Iterator[Form]:
    """The forms of these classes, as far as this JAX has them; none if they aren't needed."""
    if not is_wanted():
        return
    for make, table in ((member, GPU_ENUMS), (filled, GPU_DATACLASSES)):
        yield from map(make, found(table))
    yield from slotted(GPU_SLOTTED)
    for module, names in GPU_SINGLES.items():
        for name in names.split():
            yield from (single(f"mosaic_gpu.{name}", one) for one in found({module: name}))
    yield from map(_gpu_compiler_params, found(GPU_COMPILER_PARAMS))


def _gpu_compiler_params(kind: type) -> Form:
    form = filled(kind)

    def parts(params: Any) -> Iterable[Any]:
        if params.profile_dir:
            raise NotSerializable(
                "a profile_dir in CompilerParams, where the kernel would write files"
            )
        return form.parts(params)

    def build(*parts: Any) -> Any:
        params = form.build(*parts)
        if params.profile_dir:
            raise ValueError("a folder for profiles")
        return params

    return dataclasses.replace(form, parts=parts, build=build)
