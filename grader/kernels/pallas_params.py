"""What Pallas keeps in a pallas_call equation, with types.

Its GridMapping and BlockMapping are private classes. The protocols here name the attributes that
the grader reads of them, which jax 0.10.2 and 0.12.0.1 have in common.
"""

from __future__ import annotations

from typing import Protocol

import jax
from jax.core import AbstractValue, ShapedArray
from jax.experimental import pallas as pl
from jax.extend import core


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

    A grid dimension whose size is computed is no int. `num_index_operands` counts the operands of
    scalar prefetch, which come before the inputs.
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


def grid_mapping(pallas_call: core.JaxprEqn) -> GridMapping:
    """The grid and the blocks of a pallas_call. Raises KeyError where jax has moved them."""
    return pallas_call.params["grid_mapping"]


def body(pallas_call: core.JaxprEqn) -> core.Jaxpr:
    """The kernel's own jaxpr: Refs in, nothing out. Raises KeyError where jax has moved it."""
    return pallas_call.params["jaxpr"]


def block_size(dim: pl.BlockDim | int | None) -> int | None:
    """A block's size along one dimension, in elements; None where it is squeezed."""
    if dim is None or isinstance(dim, (int, pl.Squeezed)):
        return dim if isinstance(dim, int) else None
    return int(dim.block_size)
