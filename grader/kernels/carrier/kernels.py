"""The forms of what Pallas keeps of a kernel, where its attributes are not all there is to it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from grader.kernels.carrier.arrays import objects
from grader.kernels.carrier.errors import NotCarried
from grader.kernels.carrier.forms import Form, filled, named
from grader.kernels.carrier.limits import MOST_GRID_DIMENSIONS
from grader.kernels.jax_internals import TENSOR_CORE_MESHES, TENSOR_CORES, found
from grader.kernels.jax_internals import mosaic_core as mosaic
from grader.kernels.jax_internals import pallas_core as core


def forms() -> Iterator[Form]:
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
        if params.flags:
            raise NotCarried("the flags of CompilerParams")
        return form.parts(params)

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
