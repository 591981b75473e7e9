"""Tracing and lowering a launch function for a TPU that need not be there."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import jax
import numpy as np
from jax.extend import core
from jax.sharding import AbstractDevice, AbstractMesh, AxisType
from jax.typing import ArrayLike

from grader.kernels.alias_copies import alias_copies
from grader.kernels.block_positions import BlockPositions, positions_of
from grader.kernels.calls import kernel_call
from grader.kernels.chips_in_turn import copies_of_chips
from grader.kernels.copies import Copies, copies_of
from grader.kernels.device_queries import as_on_tpu
from grader.kernels.dry_ends import Untold
from grader.kernels.jaxprs import array_struct
from grader.kernels.known_values import known_values
from grader.kernels.mosaic_errors import not_lowered
from grader.kernels.other_chips import OTHER_CHIPS
from grader.kernels.outside_kernels import OutsideReader
from grader.kernels.pallas_params import axis_names, body
from grader.kernels.prefetch_reads import PrefetchRead, prefetch_reads
from grader.kernels.runs import runs_of
from grader.kernels.sharding import around_kernels, replicated, spread_over
from grader.kernels.side_by_side import side_by_side
from grader.kernels.without_refs import without_refs
from grader.model import Axes, KernelCall, Role, Runs, SideBySide, XlaCopy, devices_of


def abstract_mesh(axes: Axes, device: AbstractDevice) -> AbstractMesh:
    """A mesh of so many devices of a kind. What lies where is left to XLA."""
    names, sizes = tuple(name for name, _ in axes), tuple(size for _, size in axes)
    kinds = (AxisType.Auto,) * len(axes)
    return AbstractMesh(sizes, names, axis_types=kinds, abstract_device=device)


@contextlib.contextmanager
def for_chip(kind: str, cores: int, axes: Axes = ()) -> Iterator[None]:
    """Trace and lower as on a TPU with this `device_kind` and number of TensorCores.

    With `axes`, as on a mesh of such TPUs. A function that asks JAX which devices there are gets
    the answers of that TPU.

    Without it, kernels that ask for the TPU's info (`emit_pipeline`, integer `//`, blocks of rank
    1) die on a CPU.
    """
    device = AbstractDevice(device_kind=kind, num_cores=cores, platform="tpu")
    with (
        as_on_tpu(kind, cores, devices_of(axes)),
        jax.sharding.use_abstract_mesh(abstract_mesh(axes, device)),
    ):
        yield


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel of a launch, ready to be lowered and compiled by itself.

    `function` launches it with `arguments`: sizes of dynamic grid dimensions, scalar prefetch,
    inputs. `values` are those of grid sizes and scalar prefetch, where known before any kernel has
    run; None for the others. `copied` is what XLA copies around it, since outputs are to lie where
    other arrays do. `axes` are those of the mesh of devices that it communicates with: () where it
    doesn't, or where nobody has said what they are. `undivided`: XLA would have to divide it among
    the devices of a mesh, since no `shard_map` does.
    """

    call: KernelCall
    function: Callable[..., Sequence[jax.Array]]
    arguments: tuple[jax.ShapeDtypeStruct, ...]
    values: tuple[np.ndarray | None, ...]
    equation: core.JaxprEqn
    runs: Runs
    copied: tuple[XlaCopy, ...] = ()
    axes: Axes = ()
    undivided: bool = False

    def block_positions(self) -> BlockPositions:
        """The concrete grid, and where each operand's block starts on each of its steps."""
        return positions_of(self.equation, self.values)

    def copies(self) -> Copies:
        """What the kernel copies by itself: on one step of its grid, or, as it says, on all."""
        kernel = body(self.equation)
        if self.axes and None not in (grid := self.block_positions().grid):
            steps = [size or 0 for size in grid]
            with contextlib.suppress(Untold):
                return copies_of_chips(kernel, steps, self.axes, axis_names(self.equation))
        return copies_of(kernel, alike=bool(self.axes))

    def side_by_side(self) -> SideBySide | None:
        """What the chips of its mesh do; None where it has none, or where that can't be told."""
        grid = [size for size in self.block_positions().grid if size is not None]
        if not self.axes or len(grid) < len(self.call.grid):
            return None
        return side_by_side(body(self.equation), grid, self.axes, axis_names(self.equation))

    @property
    def tables(self) -> tuple[np.ndarray | None, ...]:
        """The contents of the scalar-prefetch operands, as far as known."""
        sizes = self.call.grid.count(None)
        return self.values[sizes : sizes + len(self.call.role(Role.PREFETCH))]

    def prefetch_reads(self, grid: Sequence[int], most: int) -> tuple[PrefetchRead, ...]:
        """Which cells of the tables the index maps read on the grid's first `most` steps."""
        return prefetch_reads(self.equation, grid, self.tables, most)


def kernels_in(
    closed: core.ClosedJaxpr, args: Sequence[ArrayLike | jax.ShapeDtypeStruct]
) -> tuple[Kernel, ...]:
    """The kernels of a launch that was traced `for_chip`, in program order; those that XLA runs.

    `args` are what it is given: arrays, or `jax.ShapeDtypeStruct`s for unknown contents. Within
    `for_chip`.
    """
    closed = without_refs(closed)
    kernels = OutsideReader(closed).kernels
    values = known_values(closed, jax.tree.leaves(args))
    around, axes = around_kernels(closed), jax.sharding.get_abstract_mesh().axis_names
    undivided = [not around.get(id(eqn), frozenset()).issuperset(axes) for eqn in kernels]
    found = map(_kernel, kernels, values, runs_of(closed), alias_copies(closed), undivided)
    return tuple(kernel for kernel in found if kernel.runs.times)


def _kernel(
    equation: core.JaxprEqn,
    known: Sequence[np.ndarray | None],
    runs: Runs,
    copied: tuple[XlaCopy, ...],
    undivided: bool,
) -> Kernel:
    def kernel(*arrays: jax.Array) -> Sequence[jax.Array]:
        return equation.primitive.bind(*arrays, **equation.params)

    arguments = tuple(map(array_struct, equation.invars))
    values = (*known, *[None] * (len(arguments) - len(known)))
    call = kernel_call(equation)
    axes = tuple(jax.sharding.get_abstract_mesh().shape.items())
    axes = axes if call.unknown == OTHER_CHIPS else ()
    return Kernel(call, kernel, arguments, values, equation, runs, copied, axes, undivided)


def lower(kernel: Kernel) -> jax.stages.Lowered:
    """Lower one kernel through Mosaic, within `for_chip`. Raises NotLowered."""
    function, arguments = kernel.function, kernel.arguments
    try:
        if kernel.undivided:
            arguments = replicated(arguments)
        elif kernel.axes:
            function, arguments = spread_over(kernel.axes, function, arguments)
        return jax.jit(function).trace(*arguments).lower(lowering_platforms=("tpu",))
    except Exception as error:
        refused = not_lowered(error, kernel.equation)
        refused.call = kernel.call
        raise refused from error
