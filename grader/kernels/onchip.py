"""Tracing and lowering a launch function for a TPU that need not be there."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import AbstractDevice, AbstractMesh

from grader.kernels.around import Reader
from grader.kernels.block_positions import Blocks, blocks_of
from grader.kernels.calls import kernel_call
from grader.kernels.known import known_values
from grader.kernels.mosaic_errors import refusal
from grader.kernels.tables import Read, reads_of
from grader.model import KernelCall, Role


@contextlib.contextmanager
def for_chip(kind: str, cores: int) -> Iterator[None]:
    """Trace and lower as on a TPU with this `device_kind` and number of TensorCores.

    Without it, kernels that ask for the TPU's info (`emit_pipeline`, integer `//`, blocks of rank
    1) die on a CPU.
    """
    device = AbstractDevice(device_kind=kind, num_cores=cores, platform="tpu")
    with jax.sharding.use_abstract_mesh(AbstractMesh((), (), abstract_device=device)):
        yield


@dataclass(frozen=True, slots=True)
class Kernel:
    """One `pallas_call` of a launch, ready to be lowered and compiled by itself.

    `function` launches it with `arguments`: sizes of dynamic grid dimensions, scalar prefetch,
    inputs. `values` are those of grid sizes and scalar prefetch, where known before any kernel has
    run; None for the others.
    """

    call: KernelCall
    function: Callable[..., Any]
    arguments: tuple[jax.ShapeDtypeStruct, ...]
    values: tuple[np.ndarray[Any, Any] | None, ...]
    equation: Any

    def blocks(self) -> Blocks:
        """The concrete grid, and where each operand's block starts on each of its steps."""
        return blocks_of(self.equation, self.values)

    @property
    def tables(self) -> tuple[np.ndarray[Any, Any] | None, ...]:
        """The contents of the scalar-prefetch operands, as far as known."""
        sizes = self.call.grid.count(None)
        return self.values[sizes : sizes + len(self.call.role(Role.PREFETCH))]

    def reads(self, grid: Sequence[int], most: int) -> tuple[Read, ...]:
        """Which cells of the tables the index maps read on the grid's first `most` steps."""
        return reads_of(self.equation, grid, self.tables, most)


def kernels_of(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Kernel, ...]:
    """The kernels that `function(*args, **kwargs)` launches, in program order.

    `args` are arrays, or `jax.ShapeDtypeStruct`s where the contents are not known. Trace within
    `for_chip`. Raises what tracing raises.
    """
    traced = jax.jit(lambda *arrays: function(*arrays, **kwargs)).trace(*args)
    reader = Reader()
    closed = traced.jaxpr
    reader.read(closed.jaxpr, [False] * len(closed.jaxpr.invars))
    values = known_values(closed, jax.tree.leaves(args))
    return tuple(map(_kernel, reader.equations, values))


def _kernel(eqn: Any, known: Sequence[np.ndarray[Any, Any] | None]) -> Kernel:
    def kernel(*arrays: Any) -> Any:
        return eqn.primitive.bind(*arrays, **eqn.params)

    arguments = tuple(jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.invars)
    values = (*known, *[None] * (len(arguments) - len(known)))
    return Kernel(kernel_call(eqn), kernel, arguments, values, eqn)


def lower(kernel: Kernel) -> Any:
    """Lower one kernel through Mosaic, within `for_chip`. Raises NotLowered."""
    try:
        return jax.jit(kernel.function).trace(*kernel.arguments).lower(lowering_platforms=("tpu",))
    except Exception as error:
        refused = refusal(error, kernel.equation)
        refused.call = kernel.call
        raise refused from error
