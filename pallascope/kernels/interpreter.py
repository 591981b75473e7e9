"""Runs kernels in the strict or plain interpreter, or compiled: unwritten memory, promises, cores.

It also makes two things as on a TPU, with operations at their edges (`edges_of_mosaic`) a third,
and allows three others:

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

Unwritten memory. NaN and an integer's largest value can vanish without a trace: in jnp.nan_to_num,
in a comparison, in a minimum. `UnwrittenMemory` runs a compiled program again with random numbers.

Views. A kernel may read and write through `ref.bitcast(dtype)` and `ref.reshape(shape)`, which the
strict interpreter doesn't know. Here, the part of the buffer that is viewed is read as a whole, and
written as a whole if some of it changes.

Tiles. The last copy of `emit_pipeline` over a ragged edge takes whole tiles. On a TPU, the array in
HBM has such a tile. The interpreter's array ends before, so that part of the tile is supplied here.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer
from jax.experimental.pallas import tpu as pltpu
from jax.extend import core
from jax.typing import ArrayLike

from pallascope.kernels.edges_of_mosaic import define_packing, edges_of_mosaic, rewriting, rewritten
from pallascope.kernels.faster_interpreter import EverySecond, Order, faster_interpreter
from pallascope.kernels.jax_internals import UnsupportedJax, mlir, multiple_of_p
from pallascope.kernels.jaxprs import IN_HBM, changed_inside, inner_jaxprs
from pallascope.kernels.pallas_params import semantics_name
from pallascope.kernels.prng_emulation import emulated_prng
from pallascope.kernels.refs import PIPELINES, RefNames, buffers_of_scopes, through_views
from pallascope.kernels.source_lines import copied_by_pipeline
from pallascope.model import PIPELINE_INPUT, Mode, Operand


def assume_multiples() -> None:
    """Make programs that this process runs on the CPU apply promises, from now on."""
    rule = mlir.lower_fun(_assume_multiple, multiple_results=False)
    mlir.register_lowering(multiple_of_p, rule, platform="cpu")


def _assume_multiple(index: ArrayLike, *, values: Sequence[int]) -> ArrayLike:
    """An index, rounded down. The promise for an array has a number for each dimension."""
    if len(values) != 1:
        return index
    return lax.sub(index, lax.rem(index, lax.full_like(index, values[0])))


# ---- grids ----

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
    semantics_of, size_of, orders_of, _ = (usual[name] for name in _PATCHED)

    def semantics(params: Any, rank: int) -> tuple[bool, ...]:
        kinds = params.dimension_semantics
        if kinds is None or len(kinds) != rank or not _is_mixed(found := _parallel(kinds)):
            return semantics_of(params, rank)
        return found

    def subgrid_size(parallel: tuple[bool, ...], grid: tuple[Size, ...]) -> Any:
        if not _is_mixed(parallel):
            size = size_of(parallel, grid)
            return size if isinstance(size, Tracer) else max(size, 1)  # it is divided by
        axis = _shared([size if p else 0 for p, size in zip(parallel, grid, strict=True)])
        return 1 if axis is None else grid[axis]

    def orders(grid: tuple[Size, ...], params: Any, seed: int | None) -> Any:
        kinds = params.dimension_semantics
        found = orders_of(grid, params, seed)
        mixed = kinds is not None and _is_mixed(_parallel(kinds))
        return Orders(grid, found) if mixed else found

    def grid_point(loop_indices: Sequence[Any], found: Any) -> jax.Array:
        if isinstance(found, Orders):
            return found.point(loop_indices)
        return _point(loop_indices, found)

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
    return next((axis for axis, size in enumerate(sizes) if _is_long(size)), None)


def _is_long(size: Any) -> bool:
    """Whether a dimension has more than two steps, or an unknown number."""
    return isinstance(size, Tracer) or size > 2


def _point(indices: Sequence[Any], orders: Sequence[Order]) -> jax.Array:
    """int32[rank]: the grid point of these indices. Those of an empty order aren't shuffled."""
    point = [
        order[index] if isinstance(order, EverySecond) or order.size else index
        for index, order in zip(indices, orders, strict=True)
    ]
    return jnp.array(point, jnp.int32)


class Orders(tuple[Order, ...]):
    """The order of steps along each parallel dimension, and the grid of these steps."""

    grid: tuple[Size, ...]

    def __new__(cls, grid: tuple[Size, ...], orders: Sequence[Order]) -> Orders:
        made = super().__new__(cls, orders)
        made.grid = grid
        return made

    def point(self, loop_indices: Sequence[Any]) -> jax.Array:
        """int32[rank]: the grid point of step `loop_indices` of the usual order.

        The first core's steps come before the second's.
        """
        return _point(self._on_its_core(loop_indices), self)

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


#: An array of so few elements may hold a kernel's scalars, such as counters and flags.
SCALARS = 128


@dataclass(frozen=True, slots=True)
class _Allocation:
    """One allocation of a kernel's program, for the buffer `name`.

    `written` is the part that has values from the start, the array without its padding; None if
    nothing has. Integers of a short array are drawn `small`, since they may be a loop's bound.
    """

    number: int
    name: str
    written: tuple[slice, ...] | None
    small: bool


class UnwrittenMemory:
    """The contents of memory that nothing has written, and of padding.

    A program asks for them when it allocates a buffer, so it can run again with others, without
    another compilation. Unless they are `drawn`, they are the interpreter's: NaN, and the largest
    value of an integer.
    """

    def __init__(self) -> None:
        self._names: dict[str, None] = {}
        self._numbers = itertools.count()
        self._arrays: dict[int, tuple[Any, tuple[slice, ...] | None]] = {}
        self._operands: Iterator[str] = iter(())
        self._others = ""  # the name of buffers that the kernel's program doesn't name
        self._scoped: dict[int, Iterator[str]] = {}
        self._draw: tuple[int, Collection[str], bool] | None = None
        self._allocate: Sequence[Any] = ()
        self._reset: Callable[[], None] = _reset

    @property
    def names(self) -> tuple[str, ...]:
        """The buffers with such memory, in order of allocation."""
        return tuple(self._names)

    @contextlib.contextmanager
    def drawn(self, seed: int, buffers: Collection[str], zeros: bool = False) -> Iterator[None]:
        """Fill that memory with finite random numbers, in the `buffers` of these names.

        If `zeros`, integers are zero. After an exception, the interpreter's state is reset.
        """
        self._draw = seed, buffers, zeros
        try:
            yield
        except BaseException:
            self._reset()
            raise
        finally:
            self._draw = None

    @contextlib.contextmanager
    def allocating(self, allocate: Sequence[Any], reset: Callable[[], None]) -> Iterator[None]:
        """Compile and run programs in this context: `drawn` then changes their memory.

        `allocate` are the interpreter's callbacks that take a buffer's first contents as their last
        argument; `reset` forgets the interpreter's state. If jax keeps the replaced functions
        elsewhere, `drawn` changes nothing.
        """
        try:
            from pallascope.kernels.jax_internals import callback
            from pallascope.kernels.jax_internals import tpu_interpreter_utils as utils
        except UnsupportedJax:
            yield
            return
        self._allocate, self._reset = allocate, reset
        with (
            _wrapped(utils, "get_uninitialized_array", self._unwritten),
            _wrapped(utils, "pad_to_block_dimension", self._padded),
            _wrapped(callback, "io_callback", self._called_back),
        ):
            yield

    @contextlib.contextmanager
    def of_a_tpu(self) -> Iterator[None]:
        """The same for the TPU interpreter. Its arrays also have the tiles that pipelines copy."""
        try:
            from pallascope.kernels.jax_internals import (
                Semaphore,
                SharedMemory,
                tpu_interpreter,
                tpu_interpreter_utils,
            )
        except UnsupportedJax:
            yield
            return
        allocate = (getattr(tpu_interpreter, "_allocate_buffer", None),)
        self._others = PIPELINES
        with (
            _wrapped(tpu_interpreter, "interpret_pallas_call", self._interpreted),
            _wrapped(SharedMemory, "get_buffer_content", self._read_tiles),
            _wrapped(SharedMemory, "store_buffer_content", self._store_tiles),
            _wrapped(SharedMemory, "swap_buffer_content", _swap_masked),
            _wrapped(Semaphore, "wait", _wait_for_nothing),
            _wrapped(tpu_interpreter_utils, "clip_range_to_shape", _clipped),
            self.allocating(allocate, _reset),
        ):
            yield

    def _interpreted(
        self, usual: Any, *args: Any, jaxpr: core.Jaxpr, grid_mapping: Any, **more: Any
    ) -> Any:
        """Look up the names of a kernel's buffers, and interpret it."""
        aliases = more.get("input_output_aliases", ())
        buffers = RefNames.of(jaxpr, grid_mapping, aliases).buffers
        self._operands = (buffers[number] for number in sorted(buffers))
        self._scoped = {
            at: itertools.cycle(names) for at, names in buffers_of_scopes(jaxpr).items()
        }
        return usual(*args, jaxpr=jaxpr, grid_mapping=grid_mapping, **more)

    def _unwritten(self, usual: Any, shape: Any, dtype: Any, contents: str) -> Any:
        array = usual(shape, dtype, contents)
        return array if contents == "zero" else self._noted(array, None)

    def _padded(self, usual: Any, value: Any, *args: Any) -> Any:
        padded = usual(value, *args)
        if padded is value:
            return value
        _, written = self._arrays.get(id(value), (value, tuple(map(slice, value.shape))))
        return self._noted(padded, written)

    def _noted(self, array: Any, written: tuple[slice, ...] | None) -> Any:
        self._arrays[id(array)] = array, written  # the array is kept, so its id stays unique
        return array

    def _called_back(self, usual: Any, function: Any, types: Any, *args: Any, **more: Any) -> Any:
        """The interpreter's callbacks: those that allocate such memory ask for its contents."""
        allocate = function.func if isinstance(function, functools.partial) else function
        if allocate in self._allocate:
            function = self._asking(function, *args)
        return usual(function, types, *args, **more)

    def _asking(self, allocate: Any, *args: Any) -> Callable[..., Any]:
        source_info = getattr(allocate, "keywords", {}).get("source_info")
        scope = self._operands if source_info is None else self._scoped.get(id(source_info))
        name = next(scope or iter(()), self._others)
        if id(args[-1]) not in self._arrays:
            return allocate
        array, written = self._arrays[id(args[-1])]
        scalars = math.prod(array.shape) <= SCALARS
        self._names[name] = None
        allocation = _Allocation(next(self._numbers), name, written, scalars)
        return functools.partial(self._filled, allocate, allocation)

    def _filled(self, allocate: Any, of: _Allocation, *args: Any) -> Any:
        *others, array = args
        if self._draw is None or of.name not in self._draw[1]:
            return allocate(*others, array)
        seed, _, zeros = self._draw
        array = np.asarray(array)
        filled = _random(array.shape, array.dtype, (seed, of.number), zeros, of.small)
        if of.written is not None:
            filled[of.written] = array[of.written]
        return allocate(*others, filled)

    def _read_tiles(
        self, usual: Any, memory: Any, key: Any, part: Any, *args: Any, **more: Any
    ) -> Any:
        """Read from an array; where a pipeline reads a tile past the edge, padding."""
        found, *rest = usual(memory, key, part, *args, **more)
        wanted = _sizes(part)
        if 0 in wanted and not any(map(operator.gt, _starts(part), memory.mem[key].shape)):
            array = memory.mem[key]
            return np.zeros((*wanted, *array.shape[len(part) :]), array.dtype), *rest
        if found is None or found.shape[: len(wanted)] == wanted or not _in_tiles(key, more):
            return found, *rest
        from pallascope.kernels.jax_internals import tpu_interpreter_utils as utils

        self._names[PIPELINE_INPUT] = None
        shape = (*wanted, *found.shape[len(wanted) :])
        if self._draw is None or PIPELINE_INPUT not in self._draw[1]:
            value = utils.get_uninitialized_value(found.dtype, memory.uninitialized_memory)
            whole = np.full(shape, value, found.dtype)
        else:
            seed, _, zeros = self._draw
            whole = _random(shape, found.dtype, (seed, *key[1:]), zeros, False)
        whole[tuple(map(slice, found.shape))] = found
        return whole, *rest

    def _store_tiles(
        self, usual: Any, memory: Any, key: Any, part: Any, value: Any, *args: Any, **more: Any
    ) -> Any:
        """Store to an array; if a pipeline stores a whole tile, nothing past its edge changes.

        A copy through a view stores the same elements in another shape.
        """
        shape = (*_sizes(part), *memory.mem[key].shape[len(part) :])
        if value.size == math.prod(shape):
            value = value.reshape(shape)
        inside, *rest = usual(memory, key, part, value, *args, **more)
        if inside or not _in_tiles(key, more):
            return inside, *rest
        with memory.lock:
            array = memory.mem[key]
            if any(map(operator.ge, _starts(part), array.shape)):
                return False, *rest
            array.set_in_bounds_portion(part, value)
        return True, *rest


def _starts(part: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(one.start if isinstance(one, slice) else one for one in part)


def _clipped(usual: Any, part: Any, shape: Any) -> Any:
    """The part of an array within its shape; None before its start, where numpy counts backwards.

    On a TPU, a negative index leads to the memory before the array.
    """
    return None if any(start < 0 for start in _starts(part)) else usual(part, shape)


def _wait_for_nothing(usual: Any, semaphore: Any, value: Any, *args: Any, **more: Any) -> None:
    """A wait, which passes at once for a copy of no elements. jax expects an earlier signal."""
    if int(value):
        usual(semaphore, value, *args, **more)


def _swap_masked(
    usual: Any, memory: Any, key: Any, part: Any, value: Any, mask: Any, *args: Any, **more: Any
) -> Any:
    """Exchange the elements of a part of an array where the mask is true.

    jax compares the sizes of all dimensions with the first one, so it refuses masks within bounds.
    """
    if mask is None:
        return usual(memory, key, part, value, mask, *args, **more)
    _, *rest = usual(memory, key, part, value, np.zeros_like(mask), *args, **more)
    with memory.lock:
        array = memory.mem[key]
        try:
            before = array[part].copy()
        except IndexError:
            return None, *rest
        inside, held = np.zeros_like(mask), tuple(map(slice, before.shape))
        inside[held] = True
        if (mask & ~inside).any():
            return None, *rest
        array.set_in_bounds_portion(part, np.where(mask[held], value[held], before))
    old = np.array(value)
    old[held] = np.where(mask[held], before, value[held])
    return old, *rest


@contextlib.contextmanager
def _wrapped(of: Any, name: str, by: Callable[..., Any]) -> Iterator[None]:
    """Replace a function by `by`, which gets it as its first argument; nothing if there is none."""
    usual = getattr(of, name, None)
    if usual is None:
        yield
        return

    @functools.wraps(usual)  # jax's exceptions name the function
    def wrapped(*args: Any, **more: Any) -> Any:
        return by(usual, *args, **more)

    setattr(of, name, wrapped)
    try:
        yield
    finally:
        setattr(of, name, usual)


def _sizes(part: Sequence[slice | int]) -> tuple[int, ...]:
    """The sizes of a part of an array."""
    return tuple(-(-(one.stop - one.start) // one.step) for one in part if isinstance(one, slice))


def _in_tiles(key: Any, more: Any) -> bool:
    """Whether an access to HBM belongs to a copy of `emit_pipeline`, which takes whole tiles."""
    info = more.get("logging_info")
    return key[0] in IN_HBM and info is not None and copied_by_pipeline(info.source_info)


def _random(
    shape: tuple[int, ...], dtype: Any, seed: tuple[int, ...], zeros: bool, small: bool
) -> np.ndarray:
    """Finite random numbers of a dtype: floats of both signs and many magnitudes, any integers.

    Integers are zero if `zeros`, otherwise between -100 and 100 if `small`.
    """
    deck = np.random.default_rng(seed)
    if jnp.issubdtype(dtype, jnp.floating):
        kind = jnp.finfo(dtype)
        size = np.exp2(deck.uniform(-2, min(12, math.log2(float(kind.max))), shape))
        return (size * deck.choice((-1, 1) if kind.min < 0 else (1,), shape)).astype(dtype)
    if zeros:
        return np.zeros(shape, dtype)
    if jnp.issubdtype(dtype, jnp.bool_):
        return deck.integers(0, 2, shape).astype(dtype)
    kind = jnp.iinfo(dtype)
    least, most = max(int(kind.min), -100), min(int(kind.max), 100)
    few = deck.integers(least, most, shape, endpoint=True)
    many = deck.integers(int(kind.min), int(kind.max), shape, endpoint=True)
    return np.where(small | (deck.random(shape) < 0.5), few, many).astype(dtype)


#: The `interpret` of a kernel's equation: none, the plain interpreter, the strict one.
Interpret = bool | pltpu.InterpretParams


#: In place of a semaphore's number: this, minus the index that is out of bounds.
_NO_SEMAPHORE = -20_000


@contextlib.contextmanager
def _semaphores_within_bounds() -> Iterator[None]:
    """An index beyond an array of semaphores raises IndexError; jax takes the nearest semaphore.

    If jax keeps the replaced functions elsewhere, it still does.
    """
    try:
        from pallascope.kernels.jax_internals import SharedMemory, state_discharge
    except UnsupportedJax:
        yield
        return

    def chosen(usual: Any, numbers: Any, transforms: Any) -> Any:
        result = usual(numbers, transforms)
        if getattr(result, "dtype", None) != np.int16 or result.shape:
            return result
        for indexer in transforms or ():
            pairs = zip(getattr(indexer, "indices", ()), getattr(indexer, "shape", ()), strict=True)
            for index, size in pairs:
                if not hasattr(index, "start"):
                    inside = (index >= 0) & (index < size)
                    result = jnp.where(inside, result, jnp.int16(_NO_SEMAPHORE - index))
        return result

    def found(usual: Any, memory: Any, numbers: Any, *more: Any) -> Any:
        for number in numbers:
            if number is not None and number < 0:
                index = _NO_SEMAPHORE - number
                raise IndexError(f"Out-of-bounds index {index} of an array of semaphores")
        return usual(memory, numbers, *more)

    with (
        _wrapped(state_discharge, "transform_array", chosen),
        _wrapped(SharedMemory, "get_semaphores_and_increment_clock", found),
    ):
        yield


@contextlib.contextmanager
def running(
    mode: Mode,
    seed: int = 0,
    unwritten: UnwrittenMemory | Literal["nan", "zero"] = "nan",
    padded: int | None = None,
    cores: int = 2,
    eager: bool = False,
    as_xla: Collection[str] = (),
    races: bool = True,
    bounds: bool = True,
) -> Iterator[Interpret]:
    """A context to run a launch in `mode`; yields the `interpret` for its kernels.

    Strict is the TPU interpreter at its least forgiving. `seed` shuffles the order in which the
    steps of "parallel" grid dimensions run; `unwritten` ("nan" or "zero") is the contents of
    unwritten memory, which an `UnwrittenMemory` can change. `padded`: the padding of this input of
    the only kernel is NaN in any case.
    `cores` is the number of cores that share the steps. Manual copies happen when the kernel waits
    for them, or, if `eager`, when it starts them. Operations `as_xla` have the results of XLA on
    the CPU at their edges. Without `races`, the run is faster, but finds no race. Without
    `bounds`, reads out of bounds give unwritten memory. Leaves no interpreter state behind, even
    after an exception.
    """
    assume_multiples()
    define_packing()
    if mode is not Mode.STRICT:
        yield mode is Mode.INTERPRET
        return
    changing = isinstance(unwritten, UnwrittenMemory)
    memory, filled = (unwritten, "nan") if changing else (UnwrittenMemory(), unwritten)
    try:
        with (
            faster_interpreter(seed) as remaining,
            in_any_order(),
            rewriting(_for_the_interpreter),
            edges_of_mosaic(as_xla),
            emulated_prng(),
            nan_past_the_edge(padded),
            memory.of_a_tpu(),
            _semaphores_within_bounds(),
        ):
            yield pltpu.InterpretParams(
                num_cores_or_threads=cores,
                detect_races=races,
                uninitialized_memory=filled,
                out_of_bounds_reads="raise" if bounds else "uninitialized",
                dma_execution_mode="eager" if eager else "on_wait",
                random_seed=remaining,
            )
    except BaseException:
        _reset()
        raise


def _for_the_interpreter(
    eqn: core.JaxprEqn, made: Mapping[int, core.JaxprEqn]
) -> Sequence[core.JaxprEqn]:
    """Equations without views. Those inside of a pipeline's own equation also have its scope."""
    if not inner_jaxprs(eqn) or not copied_by_pipeline(eqn.source_info):
        return through_views(eqn, made)
    scope = eqn.source_info.name_stack

    def inside(one: core.JaxprEqn, _: object) -> list[core.JaxprEqn]:
        if copied_by_pipeline(one.source_info):
            return [one]
        stack = scope + one.source_info.name_stack
        return [one.replace(source_info=one.source_info.replace(name_stack=stack))]

    return [changed_inside(eqn, lambda jaxpr: rewritten(jaxpr, inside))]


def _reset() -> None:
    """Forget the simulated memory, and the tokens that order the failed kernel's callbacks."""
    pltpu.reset_tpu_interpret_mode_state()
    from pallascope.kernels.jax_internals import runtime_tokens

    runtime_tokens.clear()
