"""Runs kernels in the strict or plain interpreter, or compiled: unwritten memory, promises, cores.

It also makes two things as strict as on a TPU, and allows a third:

Promises. `pl.multiple_of(i, 128)` lets Mosaic leave out code that any other i would need. JAX's
interpreter uses i as it is, so a kernel with a wrong promise would be right in it. Here i is
rounded down to the promised multiple: a kept promise changes nothing, a broken one shows in the
values.

Grids with "parallel" dimensions in any position. The strict interpreter wants them before all
others, because it gives each simulated core one stretch of the grid's steps. libtpu compiles them
in any order. A TPU with two TensorCores gives each core one half of a parallel dimension, and the
core walks through the rest of the grid in its usual order: with the semantics ("arbitrary",
"parallel") both cores take every step along dimension 0. Each simulated core does the same here,
and the steps along each parallel dimension are shuffled as always. Grids that the interpreter
accepts are left to it.

Padding. To find the input whose padding a kernel uses, a run has NaN in that padding only.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.pallas import tpu as pltpu
from jax.typing import ArrayLike

from pallascope.kernels.faster_interpreter import faster_interpreter
from pallascope.kernels.jax_internals import UnsupportedJax, mlir, multiple_of_p
from pallascope.kernels.pallas_params import semantics_name
from pallascope.kernels.prng_emulation import emulated_prng
from pallascope.model import Mode, Operand


def assume_multiples() -> None:
    """Make programs that this process runs on the CPU apply promises, from now on."""
    rule = mlir.lower_fun(_assume_multiple, multiple_results=False)
    mlir.register_lowering(multiple_of_p, rule, platform="cpu")


def _assume_multiple(index: ArrayLike, *, values: Sequence[int]) -> ArrayLike:
    """An index, rounded down. The promise for an array has a number for each dimension."""
    if len(values) != 1:
        return index
    return lax.sub(index, lax.rem(index, lax.full_like(index, values[0])))


Size = int | jax.Array

_PATCHED = (
    "_get_parallel_dim_semantics",
    "_get_parallel_subgrid_size",
    "_get_randomized_grid_coordinates",
    "_get_grid_point",
)


@contextlib.contextmanager
def in_any_order() -> Iterator[None]:
    """Let the strict interpreter run grids with parallel dimensions after others.

    If jax keeps the replaced functions elsewhere, it refuses these grids as before.
    """
    try:
        from pallascope.kernels.jax_internals import tpu_interpreter
    except UnsupportedJax:
        yield
        return
    usual = {name: getattr(tpu_interpreter, name, None) for name in _PATCHED}
    if None in usual.values():
        yield
        return
    with contextlib.ExitStack() as stack:
        for name, function in _replacements(usual).items():
            stack.callback(setattr, tpu_interpreter, name, usual[name])
            setattr(tpu_interpreter, name, function)
        yield


def _replacements(usual: dict[str, Any]) -> dict[str, Callable[..., Any]]:
    semantics_of, size_of, orders_of, point_of = (usual[name] for name in _PATCHED)

    def semantics(params: Any, rank: int) -> tuple[bool, ...]:
        kinds = params.dimension_semantics
        if kinds is None or len(kinds) != rank or not _is_mixed(found := _parallel(kinds)):
            return semantics_of(params, rank)
        return found

    def subgrid_size(parallel: tuple[bool, ...], grid: tuple[Size, ...]) -> Any:
        if not _is_mixed(parallel):
            return size_of(parallel, grid)
        axis = _shared([size if p else 0 for p, size in zip(parallel, grid, strict=True)])
        return 1 if axis is None else grid[axis]

    def orders(grid: tuple[Size, ...], params: Any, seed: int | None) -> Any:
        kinds = params.dimension_semantics
        found = orders_of(grid, params, seed)
        mixed = kinds is not None and _is_mixed(_parallel(kinds))
        return Orders(grid, found) if mixed else found

    def grid_point(loop_indices: Sequence[Any], found: Any) -> jax.Array:
        if not isinstance(found, Orders):
            return point_of(loop_indices, found)
        return found.point(loop_indices)

    return dict(zip(_PATCHED, (semantics, subgrid_size, orders, grid_point), strict=True))


def _parallel(kinds: Sequence[object]) -> tuple[bool, ...]:
    return tuple(semantics_name(kind) == "parallel" for kind in kinds)


def _is_mixed(parallel: Sequence[bool]) -> bool:
    """Whether a parallel dimension comes after one that isn't."""
    return list(parallel) != sorted(parallel, reverse=True)


def _shared(sizes: Sequence[Any]) -> int | None:
    """The dimension that two cores share, of those with a size; None if the first takes all.

    If two cores shared a dimension of two steps, each would take one step, and no core would leave
    a block and visit it again, as a TPU with one core does.
    """
    return next((axis for axis, size in enumerate(sizes) if size > 2), None)


class Orders(tuple[jax.Array, ...]):
    """The order of steps along each parallel dimension, and the grid of these steps."""

    grid: tuple[Size, ...]

    def __new__(cls, grid: tuple[Size, ...], orders: Sequence[jax.Array]) -> Orders:
        made = super().__new__(cls, orders)
        made.grid = grid
        return made

    def point(self, loop_indices: Sequence[Any]) -> jax.Array:
        """int32[rank]: the grid point of step `loop_indices` of the usual order.

        The first core's steps come before the second's.
        """
        indices = self._on_its_core(loop_indices)
        point = [
            order[index] if order.size else index
            for index, order in zip(indices, self, strict=True)
        ]
        return jnp.array(point, jnp.int32)

    def _on_its_core(self, loop_indices: Sequence[Any]) -> list[Any]:
        """The indices of a step, before they are shuffled."""
        axis = _shared([order.size for order in self])
        if axis is None:
            return list(loop_indices)
        size: Any = self.grid[axis]
        first_half = (size + 1) // 2
        first = math.prod((*self.grid[:axis], first_half, *self.grid[axis + 1 :]))
        step: Any = 0
        for index, length in zip(loop_indices, self.grid, strict=True):
            step = step * length + index
        second = step >= first
        half = jnp.where(second, size - first_half, first_half)
        indices = _unraveled(
            step - jnp.where(second, first, 0), (*self.grid[:axis], half, *self.grid[axis + 1 :])
        )
        indices[axis] += jnp.where(second, first_half, 0)
        return indices


def _unraveled(step: Any, grid: Sequence[Any]) -> list[Any]:
    indices = []
    for length in reversed(grid):
        indices.append(step % length)
        step = step // length
    return indices[::-1]


def overhangs(operand: Operand) -> bool:
    """Whether the last block along some dimension goes past the array's edge."""
    sizes = zip(operand.array.shape, operand.block, strict=True)
    return any(block and size % block for size, block in sizes)


@contextlib.contextmanager
def nan_past_the_edge(position: int | None) -> Iterator[None]:
    """Fill the padding of one input with NaN, whatever the interpreter fills others with.

    Inputs are counted in order. If jax keeps the function elsewhere, nothing is changed.
    """
    try:
        from pallascope.kernels.jax_internals import tpu_interpreter_utils as utils
    except UnsupportedJax:
        yield
        return
    usual: Any = getattr(utils, "pad_to_block_dimension", None)
    if usual is None or position is None:
        yield
        return
    count = itertools.count()

    def padded(value: Any, block_shape: Any, fill: str) -> Any:
        return usual(value, block_shape, "nan" if next(count) == position else fill)

    utils.pad_to_block_dimension = padded
    try:
        yield
    finally:
        utils.pad_to_block_dimension = usual


#: The `interpret` of a kernel's equation: none, the plain interpreter, the strict one.
Interpret = bool | pltpu.InterpretParams


@contextlib.contextmanager
def running(
    mode: Mode,
    seed: int = 0,
    unwritten: Literal["nan", "zero"] = "nan",
    padded: int | None = None,
    cores: int = 2,
    eager: bool = False,
) -> Iterator[Interpret]:
    """A context to run a launch in `mode`; yields the `interpret` for its kernels.

    Strict is the TPU interpreter at its least forgiving. `seed` shuffles the order in which the
    steps of "parallel" grid dimensions run; `unwritten` ("nan" or "zero") is the contents of
    unwritten memory. `padded`: the padding of this input of the only kernel is NaN in any case.
    `cores` is the number of cores that share the steps. Manual copies happen when the kernel waits
    for them, or, if `eager`, when it starts them. Leaves no interpreter state behind, even after an
    exception.
    """
    assume_multiples()
    if mode is not Mode.STRICT:
        yield mode is Mode.INTERPRET
        return
    try:
        with (
            faster_interpreter(seed) as remaining,
            in_any_order(),
            emulated_prng(),
            nan_past_the_edge(padded),
        ):
            yield pltpu.InterpretParams(
                num_cores_or_threads=cores,
                detect_races=True,
                uninitialized_memory=unwritten,
                out_of_bounds_reads="raise",
                dma_execution_mode="eager" if eager else "on_wait",
                random_seed=remaining,
            )
    except BaseException:
        _reset()
        raise


def _reset() -> None:
    """Forget the simulated memory, and the tokens that order the failed kernel's callbacks."""
    pltpu.reset_tpu_interpret_mode_state()
    from pallascope.kernels.jax_internals import runtime_tokens

    runtime_tokens.clear()
