"""The parameters in the equations of Pallas' kernels, with types.

A `pallas_call` has a GridMapping of BlockMappings, an `mpmd_map` (that is `pl.kernel`) a Mesh: all
of them private classes. The protocols here name the attributes that the grader reads of them, which
jax 0.10.2 and 0.12.0.1 have in common.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Protocol

import jax
from jax.core import AbstractValue, ShapedArray
from jax.experimental import pallas as pl
from jax.extend import core

#: Every primitive that launches a kernel. A core_map is one only as long as a trace holds Refs.
KERNELS = ("pallas_call", "core_map", "mpmd_map")


class BlockMapping(Protocol):
    """The BlockSpec of one input or output. A size of None is a squeezed dimension."""

    @property
    def block_shape(self) -> tuple[pl.BlockDim | int | None, ...]: ...

    @property
    def index_map_jaxpr(self) -> core.ClosedJaxpr: ...

    @property
    def array_aval(self) -> ShapedArray: ...

    @property
    def transformed_block_aval(self) -> AbstractValue: ...

    @property
    def pipeline_mode(self) -> pl.Buffered | None: ...


class GridMapping(Protocol):
    """The grid, and the BlockSpecs of all inputs and then of all outputs.

    A grid dimension whose size is computed isn't an int. `num_index_operands` counts the operands
    of scalar prefetch, which come before the inputs.
    """

    @property
    def grid(self) -> tuple[int | jax.Array, ...]: ...

    @property
    def block_mappings(self) -> tuple[BlockMapping, ...]: ...

    @property
    def num_index_operands(self) -> int: ...

    @property
    def num_inputs(self) -> int: ...

    @property
    def num_outputs(self) -> int: ...

    @property
    def vmapped_dims(self) -> tuple[int, ...]: ...

    def trace_env(self) -> contextlib.AbstractContextManager[None]: ...


class Mesh(Protocol):
    """The cores that run a kernel: their number along each named axis, and their kind."""

    @property
    def shape(self) -> Mapping[str, int]: ...

    @property
    def core_type(self) -> object: ...


def is_pallas_call(kernel: core.JaxprEqn) -> bool:
    """Whether a kernel is a `pallas_call`; otherwise it runs over a mesh, and has no blocks."""
    return kernel.primitive.name == "pallas_call"


def mesh(mpmd_map: core.JaxprEqn) -> Mesh:
    """The mesh of a `pl.kernel`; the first of several. Raises KeyError if jax has moved it."""
    return mpmd_map.params["meshes"][0]


def on_tensor_cores(mpmd_map: core.JaxprEqn) -> bool:
    """Whether all meshes of a `pl.kernel` are of TensorCores, not of SparseCores."""
    meshes = (*mpmd_map.params["meshes"], *mpmd_map.params["external_meshes"])
    return all(getattr(one.core_type, "name", "") == "TC" for one in meshes)


def grid_mapping(pallas_call: core.JaxprEqn) -> GridMapping:
    """The grid and the blocks of a pallas_call. Raises KeyError if jax has moved them."""
    return pallas_call.params["grid_mapping"]


def semantics_name(kind: object) -> str:
    """The name of one dimension's semantics: "parallel", "core_parallel", "arbitrary".

    JAX takes the name, or the member of `pltpu.GridDimensionSemantics` (`pltpu.PARALLEL`) with this
    value.
    """
    return str(getattr(kind, "value", kind))


def semantics(pallas_call: core.JaxprEqn) -> tuple[str, ...]:
    """The names of the semantics of each grid dimension; () if the launch gives none.

    Mosaic treats the dimensions that jax.vmap adds as parallel. If there are not as many semantics
    as dimensions, they stay as given.
    """
    given = getattr(pallas_call.params.get("compiler_params"), "dimension_semantics", None) or ()
    names = tuple(map(semantics_name, given))
    mapping = grid_mapping(pallas_call)
    rank, added = len(mapping.grid), mapping.vmapped_dims
    if not added or len(names) + len(added) != rank:
        return names
    rest = iter(names)
    return tuple("parallel" if axis in added else next(rest) for axis in range(rank))


def vmem_limit(kernel: core.JaxprEqn) -> int:
    """The VMEM that a launch asks for, in bytes; 0 if it asks for none."""
    return getattr(kernel.params.get("compiler_params"), "vmem_limit_bytes", None) or 0


def body(kernel: core.JaxprEqn) -> core.Jaxpr:
    """The kernel's own jaxpr: Refs in, nothing out; the first of a `pl.kernel` that has several.

    Raises KeyError if jax has moved it.
    """
    return kernel.params["jaxpr"] if is_pallas_call(kernel) else kernel.params["jaxprs"][0]


def axis_names(kernel: core.JaxprEqn) -> tuple[str, ...]:
    """The names of a kernel's grid axes, or of its mesh's; () if they have none."""
    if not is_pallas_call(kernel):
        return tuple(map(str, mesh(kernel).shape))
    return tuple(map(str, getattr(grid_mapping(kernel), "grid_names", None) or ()))


def block_size(dim: pl.BlockDim | int | None) -> int | None:
    """A block's size along one dimension, in elements; None if it is squeezed."""
    if dim is None or isinstance(dim, (int, pl.Squeezed)):
        return dim if isinstance(dim, int) else None
    return int(dim.block_size)
