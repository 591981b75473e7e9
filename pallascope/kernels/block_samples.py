"""Some blocks of a kernel's outputs, at sizes that take too long to run as a whole.

An output block of a kernel depends on the grid steps that visit it, and on earlier ones only if a
scratch buffer carries something over. So a few blocks are computed by running these steps alone:
those with the first element, with the last, and with others that the seed draws from different
parts of each dimension. A step is the kernel's own body, with values for its Refs, compiled once.
Inputs are cut where a step needs them; large ones only repeat a few values, and are never made as a
whole. A block that a step reads of an earlier kernel's output is computed in the same way.

Memory that nothing has written holds NaN: the padding of blocks, scratch before the first step, and
an output block at its first visit. If a block holds NaN and there is scratch, steps before it run
as well: from the start of the innermost dimension of the grid, then of the next.

A kernel that copies from or to HBM itself, or waits for semaphores, only runs as a whole.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.extend import core

from pallascope.kernels.evaluator import Env, Evaluator, bind
from pallascope.kernels.index_maps import positions_of
from pallascope.kernels.jaxprs import (
    IN_HBM,
    SOME_TURNS,
    array_struct,
    called,
    discharged,
    inner_jaxprs,
    loop_carried,
    loop_constants,
    memory_space,
    most_of,
    primitives,
)
from pallascope.kernels.operation_counts import work_of
from pallascope.kernels.pallas_params import (
    block_size,
    body,
    grid_mapping,
    is_pallas_call,
)
from pallascope.kernels.prng_emulation import OF_GENERATORS, TracedGenerator
from pallascope.kernels.refs import without_views

Values = np.ndarray[Any, Any]

#: The largest grid whose index maps are evaluated, in steps.
MOST_STEPS = 200_000
#: The most that the steps of a launch may cost, in operations of matrix products: a second or two;
#: and that of a launch whose sample has to have the blocks of another one, which costs less.
MOST_WORK, MOST_WORK_BESIDE = 6e10, 2.5e11
#: The most steps that run for one block because scratch may carry something over.
MOST_CARRIED = 64
#: The most bytes of arrays that operations around the kernels take and return as a whole.
MOST_BYTES = 256 << 20
#: About the most elements in a sample of a result that is known as a whole; of one that is known in
#: blocks, if all its blocks were computed.
MOST_ELEMENTS, MOST_IN_BLOCKS = 1 << 20, 1 << 22
#: Blocks with the first targets are always computed; with the others, while the work is small.
FIRST_TARGETS, ALL_TARGETS = 4, 18
SMALL_WORK = 2e10
#: The most steps that run for a result that needs all blocks.
MOST_ALL_STEPS = 2048


class NotSampled(Exception):
    """The blocks can't be computed; the message says why."""


class RunsAsAWhole(NotSampled):
    """No block can be computed alone, but the launch may run as a whole."""


class TooLong(NotSampled):
    """The launch only runs as a whole, and that takes too long, but not longer than usual."""


class Sliced(Protocol):
    """An array whose elements are computed when they are needed."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype: ...

    def take(self, flat: Values) -> Values:
        """The elements at row-major positions, in the shape of `flat`."""
        ...


@dataclass(frozen=True, slots=True)
class Repeated:
    """An array whose elements repeat some `values`, in row-major order."""

    values: Values
    shape: tuple[int, ...]

    @property
    def dtype(self) -> np.dtype:
        return self.values.dtype

    def take(self, flat: Values) -> Values:
        return self.values[flat % self.values.size]

    def box(self, low: Sequence[int], size: Sequence[int]) -> Values:
        """The elements of a box, row by row, which takes a tenth of the time of `take`."""
        rows = _positions(self.shape[:-1], low[:-1], size[:-1]) * self.shape[-1] + low[-1]
        longer = np.resize(self.values, self.values.size + size[-1])
        windows = np.lib.stride_tricks.sliding_window_view(longer, size[-1])
        return windows[rows % self.values.size]


@dataclass(frozen=True, slots=True)
class Reshaped:
    """The same elements in another shape."""

    of: Any
    shape: tuple[int, ...]

    @property
    def dtype(self) -> np.dtype:
        return self.of.dtype

    def take(self, flat: Values) -> Values:
        return taken(self.of, flat)


def root_of(value: Any) -> Any:
    """The array whose elements a value has in another shape, or the value itself."""
    while isinstance(value, Reshaped):
        value = value.of
    return value


def taken(value: Any, flat: Values) -> Values:
    return value.reshape(-1)[flat] if isinstance(value, np.ndarray) else value.take(flat)


def whole(value: Any) -> Values:
    """All elements of an array. Raises NotSampled for one that would be too large."""
    if isinstance(value, np.ndarray):
        return value
    size = math.prod(value.shape)
    if size * value.dtype.itemsize > MOST_BYTES:
        raise NotSampled("an array that is needed as a whole is too large")
    if isinstance(value, Repeated):
        return np.resize(value.values, value.shape)
    return value.take(np.arange(size).reshape(value.shape))


def _part(value: Any, start: Sequence[int], size: Sequence[int]) -> Values:
    """A block of an array; unwritten beyond its edges."""
    low = [max(0, at) for at in start]
    high = [min(n, at + own) for n, at, own in zip(value.shape, start, size, strict=True)]
    inside = [max(b - a, 0) for a, b in zip(low, high, strict=True)]
    if isinstance(value, np.ndarray):
        part = value[tuple(map(slice, low, high))] if all(inside) else value[:0]
    elif isinstance(root := root_of(value), Repeated) and inside and all(inside):
        part = Repeated(root.values, value.shape).box(low, inside)
    else:
        part = value.take(_positions(value.shape, low, inside))
    if inside == list(size):
        return part
    block = unwritten_array(tuple(size), value.dtype)
    if all(inside):
        at = [a - s for a, s in zip(low, start, strict=True)]
        block[tuple(slice(a, a + n) for a, n in zip(at, inside, strict=True))] = part
    return block


def _positions(shape: Sequence[int], low: Sequence[int], size: Sequence[int]) -> Values:
    """int64[size]: row-major positions of the elements of a box."""
    found = np.zeros((), np.int64)
    for whole, first, count in zip(shape, low, size, strict=True):
        found = np.add.outer(found * whole, np.arange(first, first + count))
    return found


def unwritten_array(shape: tuple[int, ...], dtype: Any, other: bool = False) -> Values:
    """NaN; for integers, one of two numbers that no kernel is likely to store."""
    dtype = np.dtype(dtype)
    if jnp.issubdtype(dtype, jnp.floating):
        return np.full(shape, np.nan, dtype)
    if dtype == np.bool_:
        return np.full(shape, other)
    info = jnp.iinfo(dtype)
    return np.full(shape, int(info.min) + 3 if other else int(info.max) - 5, dtype)


def _has_nan(values: Values) -> bool:
    return bool((values != values).any())


@dataclass(slots=True)
class Work:
    """The most work that may be done, and the work that has been done."""

    most: float = MOST_WORK
    spent: float = 0.0

    def spend(self, amount: float) -> None:
        """Raises NotSampled if that is too much."""
        if self.spent + amount > self.most:
            raise NotSampled("its steps take too long")
        self.spent += amount

    def is_small(self) -> bool:
        """Whether little has been spent."""
        return self.spent < SMALL_WORK


#: The largest work of a kernel that runs as a whole, and the most operations on its memory: each
#: calls Python.
MOST_WHOLE_WORK, MOST_ACCESSES = 4e11, 20_000
#: Right kernels have less than this multiple of them.
USUAL = 5
_ACCESSES = ("get", "swap", "addupdate", "load", "masked_load", "dma_", "semaphore_")


def run_inputs(
    kernels: Iterable[core.JaxprEqn], arrays: Sequence[Values | Repeated]
) -> list[Values]:
    """The inputs of a launch with these kernels, for a run as a whole in the interpreter.

    Raises NotSampled if it takes too long, or if an input is too large.
    """
    size = sum(math.prod(each.shape) * each.dtype.itemsize for each in arrays)
    times = max([size / MOST_BYTES, *map(run_length, kernels)])
    if times > 1:
        kind = TooLong if times < USUAL else NotSampled
        raise kind("its inputs are too large" if size > MOST_BYTES else "its steps take too long")
    return list(map(whole, arrays))


def run_length(kernel: core.JaxprEqn) -> float:
    """The work of a run of a kernel as a whole, as a part of the most at production size."""
    sizes = grid_mapping(kernel).grid if is_pallas_call(kernel) else ()
    steps = math.prod(size if isinstance(size, int) else SOME_TURNS for size in sizes)
    accesses = steps * most_of(body(kernel), _is_access)
    return max(accesses / MOST_ACCESSES, steps * work_of(body(kernel)) / MOST_WHOLE_WORK)


def _is_access(eqn: core.JaxprEqn, _: bool) -> float:
    return float(eqn.primitive.name.startswith(_ACCESSES))


_OF_THE_GRID = ("program_id", "num_programs")
#: Of JAX 0.12, in loops whose Refs were discharged. JAX refuses them with inputs that lack it.
_CONSTRAINT = "with_memory_space_constraint"
_OWN = {*_OF_THE_GRID, *OF_GENERATORS, _CONSTRAINT}


@dataclass(slots=True)
class _Body(Evaluator):
    """Evaluates a kernel's body, without Refs, on one step: `ids` and `sizes` of its grid."""

    ids: Sequence[Any]
    sizes: Sequence[int]
    generator: TracedGenerator = field(default_factory=TracedGenerator)

    def operation(self, eqn: core.JaxprEqn, inputs: list[Any], env: Env) -> Sequence[Any]:
        name, params = eqn.primitive.name, eqn.params
        if name in _OF_THE_GRID:
            axis = params["axis"]
            return [self.ids[axis] if name == "program_id" else jnp.int32(self.sizes[axis])]
        if name in OF_GENERATORS:
            return self.generator.operation(eqn, inputs)
        if name == _CONSTRAINT:
            return inputs
        inside = {p for inner in inner_jaxprs(eqn) for p in primitives(inner)}
        if inside.isdisjoint(_OWN):
            return bind(eqn, inputs)
        if (inner := called(eqn)) is not None:
            return self.evaluate(inner, inputs)
        if name == "cond":
            branches = [functools.partial(self._with_state, b) for b in params["branches"]]
            return self._goes_on(lax.switch(inputs[0], branches, self._state(), *inputs[1:]))
        if name == "scan":
            return self._scan(eqn, inputs)
        if name == "while":
            return self._while(eqn, inputs)
        if name == "run_scoped":
            return self._run_scoped(eqn, inputs)
        raise NotSampled(f"its grid step is read inside of a {name}")

    def _scan(self, eqn: core.JaxprEqn, inputs: list[Any]) -> Sequence[Any]:
        fixed, count = loop_constants(eqn), loop_carried(eqn)
        (inner,) = inner_jaxprs(eqn)
        params = eqn.params

        def turn(carry: Any, rows: Any) -> Any:
            state, *carried = carry
            given = [*inputs[:fixed], *carried, *rows]
            results = self._with_state(params.get("jaxpr", inner), state, *given)
            return results[: 1 + count], results[1 + count :]

        carry, rows = inputs[fixed : fixed + count], inputs[fixed + count :]
        begin = [self._state(), *carry]
        carry, made = lax.scan(turn, begin, rows, params["length"], params["reverse"])
        return self._goes_on([*carry, *made])

    def _while(self, eqn: core.JaxprEqn, inputs: list[Any]) -> Sequence[Any]:
        first = eqn.params["cond_nconsts"]
        fixed = first + eqn.params["body_nconsts"]
        stop, inner = eqn.params["cond_jaxpr"], eqn.params["body_jaxpr"]
        return self._goes_on(
            lax.while_loop(
                lambda carry: self.evaluate(stop, [*inputs[:first], *carry[1:]])[0],
                lambda carry: self._with_state(inner, carry[0], *inputs[first:fixed], *carry[1:]),
                [self._state(), *inputs[fixed:]],
            )
        )

    # A generator's state goes through branches and loops, before all other values.

    def _state(self) -> Any:
        return self.generator.state

    def _with_state(self, inner: Any, state: Any, *inputs: Any) -> list[Any]:
        """The results of a branch or a turn, after the generator's new state."""
        self.generator.state = state
        results = self.evaluate(inner, inputs)
        return [self.generator.state, *results]

    def _goes_on(self, results: Sequence[Any]) -> Sequence[Any]:
        """The results without the generator's state, with which it goes on."""
        self.generator.state, *others = results
        return others

    def _run_scoped(self, eqn: core.JaxprEqn, inputs: list[Any]) -> Sequence[Any]:
        """The results of a scope, with the new values of what it closes over; buffers hold NaN."""
        from pallascope.kernels.jax_internals import convert_constvars_jaxpr

        inner = eqn.params["jaxpr"]
        refs = [array_struct(var) for var in inner.invars]
        buffers = [jnp.asarray(unwritten_array(ref.shape, ref.dtype)) for ref in refs]
        closed = core.ClosedJaxpr(convert_constvars_jaxpr(inner), ())
        results = self.evaluate(discharged(closed), [*inputs, *buffers])
        return results[: len(eqn.outvars)]


class SampledKernel:
    """One `pallas_call` with its operands: computes blocks of its outputs."""

    def __init__(self, eqn: core.JaxprEqn, operands: Sequence[Any], work: Work) -> None:
        if not is_pallas_call(eqn):
            raise RunsAsAWhole("its kernel runs over a mesh")
        self._mapping = mapping = grid_mapping(eqn)
        self._body = body(eqn)
        sizes = sum(not isinstance(n, int) for n in mapping.grid)
        before = sizes + mapping.num_index_operands
        scalars = [whole(value) for value in operands[:before]]
        self._tables, self._inputs = scalars[sizes:], list(operands[before:])
        self._specs = mapping.block_mappings
        self._count = mapping.num_inputs
        tables = mapping.num_index_operands
        refs = self._body.invars[tables:]
        self._refs, self._scratch = refs[: len(self._specs)], refs[len(self._specs) :]
        self._demand_plain()
        positions = positions_of(eqn, scalars, MOST_STEPS)
        starts = positions.starts[tables : tables + len(self._specs)]
        for start, why in zip(starts, positions.unknown[tables:], strict=False):
            if start is None:
                raise NotSampled(why or "its blocks are unknown")
        self._starts = [
            start - [_padding(dim) for dim in spec.block_shape]
            for start, spec in zip(starts, self._specs, strict=True)
            if start is not None
        ]
        self._sizes = [[block_size(n) or 1 for n in spec.block_shape] for spec in self._specs]
        self.grid = tuple(int(n or 0) for n in positions.grid)
        self._axes = [n for n in range(len(self.grid)) if n not in mapping.vmapped_dims]
        self._visits = [self._places(at) for at in range(self._count, len(self._specs))]
        self._aliases = {  # the position of an input
            out: given - tables for given, out in eqn.params.get("input_output_aliases") or ()
        }
        self._work = work
        self._blocks: dict[tuple[int, int], Values | None] = {}
        self._fetched: dict[int, tuple[list[int], Values]] = {}

    def shape(self, number: int) -> tuple[int, ...]:
        """The shape of an output."""
        return tuple(self._specs[self._count + number].array_aval.shape)

    def dtype(self, number: int) -> np.dtype:
        return np.dtype(self._specs[self._count + number].array_aval.dtype)

    def block_count(self, number: int) -> int:
        """The number of blocks of an output."""
        return math.prod(self._blocks_along(number))

    def _blocks_along(self, number: int) -> tuple[int, ...]:
        sizes = self._sizes[self._count + number]
        return tuple(-(-n // size) for n, size in zip(self.shape(number), sizes, strict=True))

    def _places(self, at: int) -> Values:
        """int64[steps]: the number of an output's block on each step; -1 beyond its edges."""
        starts, sizes = self._starts[at].astype(np.int64), np.array(self._sizes[at], np.int64)
        if (starts % sizes).any():
            raise NotSampled("its output blocks may overlap")
        grid = self._blocks_along(at - self._count)
        index = starts // sizes
        inside = ((index >= 0) & (index < grid)).all(axis=1) if grid else True
        numbers = np.zeros(len(index), np.int64)
        for axis, count in enumerate(grid):
            numbers = numbers * count + index[:, axis]
        return np.where(inside, numbers, -1)

    def box(self, number: int, place: int) -> tuple[list[int], list[int]]:
        """Start and size of a block of an output, cut at the array's edges."""
        sizes, grid = self._sizes[self._count + number], self._blocks_along(number)
        start = [int(i) * n for i, n in zip(np.unravel_index(place, grid), sizes, strict=True)]
        ends = (min(a + n, b) for a, n, b in zip(start, sizes, self.shape(number), strict=True))
        return start, [end - at for end, at in zip(ends, start, strict=True)]

    def place_of(self, number: int, flat: Values) -> Values:
        """The numbers of the blocks that hold elements at these positions."""
        if not self.shape(number):
            return np.zeros(flat.shape, np.int64)
        sizes = self._sizes[self._count + number]
        index = np.unravel_index(flat, self.shape(number))
        blocks = tuple(at // size for at, size in zip(index, sizes, strict=True))
        return np.ravel_multi_index(blocks, self._blocks_along(number))

    def block(self, number: int, place: int) -> Values | None:
        """A block of an output, cut at the array's edges; None if no step writes it.

        Raises NotSampled.
        """
        key = (number, place)
        if key not in self._blocks:
            self._compute(number, place)
        return self._blocks[key]

    def is_cheap(self) -> bool:
        """Whether more blocks take little time: not those of loops, whose work is hard to know."""
        return self._work.is_small() and {"scan", "while"}.isdisjoint(primitives(self._body))

    def runs_all_steps(self) -> bool:
        """Whether there is time for all steps, and for something else."""
        steps = math.prod(self.grid)
        return steps <= MOST_ALL_STEPS and (
            self._work.spent + 2 * steps * self._step_cost <= self._work.most
        )

    def writes(self, number: int, place: int) -> bool:
        """Whether a step writes this block of an output."""
        return bool((self._visits[number] == place).any())

    def unwritten(self, number: int) -> int | None:
        """The position of an output's first element that no step writes; None if there is none.

        Such elements of an output with an alias are the input's.
        """
        if not (count := self.block_count(number)):
            return None
        visited = np.zeros(count, np.bool_)
        visited[self._visits[number][self._visits[number] >= 0]] = True
        if visited.all():
            return None
        start, _ = self.box(number, int(np.argmin(visited)))
        return int(np.ravel_multi_index(start, self.shape(number))) if start else 0

    def _compute(self, number: int, place: int) -> None:
        steps = np.flatnonzero(self._visits[number] == place)
        if not steps.size:
            alias = self._aliases.get(number)
            box = self.box(number, place)
            given = None if alias is None else _part(self._inputs[alias], *box)
            self._blocks[number, place] = given
            return
        last, first = int(steps[-1]), _first_of_run(steps)
        for begin in self._beginnings(first):
            if begin < first and last - begin >= MOST_CARRIED:
                raise NotSampled("its blocks depend on too many earlier steps")
            outputs = self._run(begin, last)
            integers = any(not jnp.issubdtype(_dtype(ref), jnp.floating) for ref in self._scratch)
            sure = begin == 0 or not self._scratch
            if not sure and integers:
                others = self._run(begin, last, other=True)
                sure = np.array_equal(outputs[number], others[number], equal_nan=True)
                sure = sure and not _has_nan(outputs[number])
            elif not sure:
                sure = not _has_nan(outputs[number])
            if sure:
                break
        else:
            raise NotSampled("its blocks depend on too many earlier steps")
        self._keep(outputs, begin, last, number)

    def _keep(self, outputs: list[Values], begin: int, last: int, asked: int) -> None:
        """Keep the block that was asked for, and those of other outputs that are complete too."""
        for other, values in enumerate(outputs):
            visits = self._visits[other]
            steps = np.flatnonzero(visits == (place := int(visits[last])))
            complete = place >= 0 and steps[-1] == last and _first_of_run(steps) >= begin
            if other == asked or (complete and not _has_nan(values)):
                self._blocks.setdefault((other, place), values)

    def _beginnings(self, first: int) -> Iterator[int]:
        """Steps from which to run: the first that is needed, and the starts of its dimensions."""
        yield first
        at = [int(i) for i in np.unravel_index(first, self.grid)] if self.grid else []
        begin = first
        for axis in reversed(range(len(at))) if self._scratch else ():
            at[axis] = 0
            earlier = int(np.ravel_multi_index(at, self.grid))
            if earlier < begin:
                yield (begin := earlier)

    def _demand_plain(self) -> None:
        """Raises NotSampled for a kernel that doesn't just map blocks to blocks."""
        names = set(primitives(self._body))
        if any(memory_space(ref.aval) in IN_HBM for ref in self._refs):
            raise RunsAsAWhole("its kernel copies from or to HBM itself")
        if any(memory_space(ref.aval).startswith("semaphore") for ref in self._scratch):
            raise RunsAsAWhole("its kernel waits for semaphores")
        if any(name.startswith(("dma_", "semaphore_")) for name in names):
            raise RunsAsAWhole("its kernel copies by itself")

    @functools.cached_property
    def _step_cost(self) -> float:
        return work_of(self._without_refs.jaxpr)

    @functools.cached_property
    def _without_refs(self) -> core.ClosedJaxpr:
        with self._mapping.trace_env():
            return discharged(core.ClosedJaxpr(without_views(self._body), ()))

    @functools.cached_property
    def _step(self) -> Callable[..., Any]:
        before, outputs = len(self._tables) + self._count, len(self._specs) - self._count
        sizes = [self.grid[axis] for axis in self._axes]

        def step(ids: jax.Array, *contents: jax.Array) -> list[jax.Array]:
            own = [ids[axis] for axis in self._axes]
            results = _Body(own, sizes).evaluate(self._without_refs, contents)
            return results[before : before + outputs + len(self._scratch)]

        return jax.jit(step)

    def _run(self, begin: int, last: int, other: bool = False) -> list[Values]:
        """The output blocks, cut, after the steps `begin` to `last` in their order."""
        self._work.spend((last + 1 - begin) * self._step_cost)
        outputs = len(self._specs) - self._count
        held: list[Any] = [None] * outputs
        places = [-2] * outputs
        scratch: list[Any] = [
            unwritten_array(array_struct(ref).shape, _dtype(ref), other) for ref in self._scratch
        ]
        refs = self._refs[self._count :]
        for step in range(begin, last + 1):
            ids = np.array(np.unravel_index(step, self.grid) if self.grid else [0], np.int32)
            for number, visits in enumerate(self._visits):
                if visits[step] != places[number]:
                    places[number] = int(visits[step])
                    struct = array_struct(refs[number])
                    held[number] = unwritten_array(struct.shape, struct.dtype, other)
            inputs = [self._input(at, step) for at in range(self._count)]
            results = self._step(ids, *self._tables, *inputs, *held, *scratch)
            held, scratch = results[:outputs], results[outputs:]
        return [
            self._cut(number, np.asarray(held[number]), places[number]) for number in range(outputs)
        ]

    def _input(self, at: int, step: int) -> Values:
        start = self._starts[at][step].tolist()
        if at not in self._fetched or self._fetched[at][0] != start:
            block = _part(self._inputs[at], start, self._sizes[at])
            self._fetched[at] = start, block.reshape(array_struct(self._refs[at]).shape)
        return self._fetched[at][1]

    def _cut(self, number: int, block: Values, place: int) -> Values:
        block = block.reshape(self._sizes[self._count + number])
        if place < 0:
            return block
        return block[tuple(map(slice, self.box(number, place)[1]))]


def _dtype(ref: core.Var) -> Any:
    return array_struct(ref).dtype


def _padding(dim: Any) -> int:
    """The elements that a block may reach before the array."""
    return int(dim.padding[0]) if isinstance(dim, pl.Element) else 0


def _first_of_run(steps: Values) -> int:
    """The first of the last steps that follow each other."""
    gaps = np.flatnonzero(np.diff(steps) != 1)
    return int(steps[gaps[-1] + 1] if gaps.size else steps[0])


@dataclass(frozen=True, slots=True)
class KernelOutput:
    """An output of a kernel."""

    kernel: SampledKernel
    number: int

    @property
    def shape(self) -> tuple[int, ...]:
        return self.kernel.shape(self.number)

    @property
    def dtype(self) -> np.dtype:
        return self.kernel.dtype(self.number)

    def take(self, flat: Values) -> Values:
        """As `Sliced`. Elements that no step writes are unwritten. Raises NotSampled."""
        found = unwritten_array(flat.shape, self.dtype)
        places = self.kernel.place_of(self.number, flat)
        for place in np.unique(places):
            block = self.kernel.block(self.number, int(place))
            if block is not None:
                here = places == place
                start, _ = self.kernel.box(self.number, int(place))
                index = np.unravel_index(flat[here], self.shape) if self.shape else ()
                found[here] = block[tuple(at - s for at, s in zip(index, start, strict=True))]
        return found


def _targets(shape: Sequence[int], seed: int) -> Values:
    """int64[targets]: positions in an array: the last, the first, and others that the seed draws.

    The others divide each dimension into as many parts, and each part has one of them: so one
    of 8 heads has a target, and each of 16 blocks in a row.
    """
    size, drawn = math.prod(shape), ALL_TARGETS - 2
    if not size:
        return np.zeros(0, np.int64)
    random = np.random.default_rng(seed)
    flat = np.zeros(drawn, np.int64)
    for length in shape:
        parts = (random.permutation(drawn) + random.random(drawn)) / drawn
        flat = flat * length + (parts * length).astype(np.int64)
    return np.array([size - 1, 0, *flat], np.int64)


@dataclass(slots=True)
class SomeBlocks:
    """Blocks of an output: the positions of the elements, and the values.

    `kept` are those in blocks that no step writes, with an input's values. `targets` is the number
    of elements whose blocks were asked for; `refused` says why the block of one isn't computed.
    """

    blocks: list[tuple[Values, Values]] = field(default_factory=list)
    kept: list[Values] = field(default_factory=list)
    targets: int = 0
    refused: str = ""


def blocks_of(output: KernelOutput, seed: int, targets: int = 0, every: bool = False) -> SomeBlocks:
    """The blocks of the first `targets`, at least FIRST_TARGETS, and of more while that is cheap.

    If `every`, all blocks, where there is time. Raises NotSampled if none can be computed.
    """
    kernel, number = output.kernel, output.number
    found, known = SomeBlocks(), set[int]()
    places = kernel.place_of(number, _targets(output.shape, seed)).tolist()
    if every and kernel.runs_all_steps():
        places = range(kernel.block_count(number))
    elif (unwritten := kernel.unwritten(number)) is not None:
        places = [*kernel.place_of(number, np.array([unwritten])).tolist(), *places]
    for place in places:
        enough = found.targets >= max(targets, FIRST_TARGETS)
        if enough and not isinstance(places, range) and not kernel.is_cheap():
            break
        found.targets += 1
        if place in known:
            continue
        known.add(place)
        try:
            values = kernel.block(number, place)
        except NotSampled as why:
            found.refused = found.refused or str(why)
            continue
        if values is not None:
            positions = _positions(output.shape, *kernel.box(number, place))
            found.blocks.append((positions, values))
            if not kernel.writes(number, place):
                found.kept.append(positions)
    if found.refused and not found.blocks:
        raise NotSampled(found.refused)
    return found
