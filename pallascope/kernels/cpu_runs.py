"""Computes a launch one operation after another on the CPU, with some operations replaced.

This takes milliseconds at hidden sizes, since nothing is compiled for a launch. Steps run in the
grid's order, a copy happens when it starts, and memory that nothing has written holds NaN, so that
the values are right if the kernel has no race. Several devices, random bits and indices out of
bounds need the strict interpreter.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from pallascope.kernels.block_samples import (
    NotSampled,
    SampledKernel,
    Values,
    Work,
    unwritten_array,
)
from pallascope.kernels.evaluator import Env, Evaluator, bind, computed
from pallascope.kernels.jaxprs import (
    IN_HBM,
    array_struct,
    called,
    equations,
    inner_jaxprs,
    loop_carried,
    loop_constants,
    memory_space,
)
from pallascope.kernels.manual_dma import ref_of
from pallascope.kernels.operation_counts import work_of
from pallascope.kernels.pallas_params import KERNELS, body, grid_mapping, is_pallas_call

#: The most operations that may be computed for all changes of a launch together, each about 30 µs.
MOST_OPERATIONS = 60_000
#: The work of matrix products, and the elements of a result, that count as one operation.
WORK_OF_ONE, ELEMENTS_OF_ONE = 1e6, 20_000


Replacement = Callable[[core.JaxprEqn], Sequence[core.JaxprEqn]]


class NotTried(Exception):
    """A launch can't be computed operation by operation; the message says why."""


class OutOfBounds(Exception):
    """A launch has an index out of bounds."""


class BlockDiffers(Exception):
    """A block of the output `at`, after its last step, differs from the expected one."""

    def __init__(self, at: int, step: int, block: Values) -> None:
        super().__init__()
        self.at, self.step, self.block = at, step, block


class Spent(Exception):
    """Too many operations."""


class _Buffer:
    """The contents of a Ref."""

    __slots__ = ("values",)

    def __init__(self, values: Values) -> None:
        self.values = np.array(values)


class LaunchOnCpu(Evaluator):
    """Computes a launch with changes, one operation after another.

    `is_right` compares a result, or a block of one, with the same part of the `expected` ones.
    """

    def __init__(
        self,
        closed: core.ClosedJaxpr,
        inputs: Sequence[Values],
        expected: Sequence[Values],
        is_right: Callable[[Values, Values], bool],
    ) -> None:
        self._closed, self._inputs, self.is_right = closed, list(inputs), is_right
        self._expected = list(expected)
        self._wanted = {
            id(var): want for var, want in zip(closed.jaxpr.outvars, expected, strict=True)
        }
        self._by: Mapping[int, Replacement] = {}
        self._inside: dict[int, tuple[set[int], set[str]]] = {}
        self._kernels: dict[tuple[Any, ...], KernelOnCpu] = {}
        self._left: float = MOST_OPERATIONS
        self.refs: dict[int, _Buffer] = {}  # of the kernel that runs, by its variables' ids
        self.core = 0
        self.ids: Sequence[Any] = ()
        self.sizes: Sequence[int] = ()

    def results(self, by: Mapping[int, Replacement]) -> list[Values] | None:
        """The results with other equations in place of those of these ids; None if one is wrong.

        Raises NotTried, OutOfBounds, Spent, and the exceptions of operations that can't be
        computed.
        """
        self._by = by
        try:
            found = list(map(np.asarray, self.evaluate(self._closed, self._inputs)))
        except BlockDiffers:
            return None
        right = all(map(self.is_right, found, self._expected))
        return found if right else None

    def value(self, atom: Any, env: Env) -> Any:
        if isinstance(atom, core.Literal):
            return np.asarray(atom.val, array_struct(atom).dtype)
        return env[atom] if atom in env else self.refs[id(atom)]  # a change may read another Ref

    def operation(self, eqn: core.JaxprEqn, inputs: list[Any], env: Env) -> Sequence[Any]:
        if (change := self._by.get(id(eqn))) is None:
            return self._computed(eqn, inputs)
        for new in change(eqn):
            made = self._computed(new, [self.value(atom, env) for atom in new.invars])
            env.update(zip(new.outvars, made, strict=True))
        return [env[var] for var in eqn.outvars]

    def spend(self, operations: float) -> None:
        self._left -= operations
        if self._left < 0:
            raise Spent

    def _computed(self, eqn: core.JaxprEqn, inputs: list[Any]) -> Sequence[Any]:
        self.spend(1)
        name = eqn.primitive.name
        if name not in KERNELS and self._is_one_program(eqn, inputs):
            return bind(eqn, inputs)
        match name:
            case "program_id" | "num_programs":
                of_grid = self.ids if name == "program_id" else self.sizes
                return [np.int32(of_grid[eqn.params["axis"]])]
            case "axis_index":
                return [np.int32(self.core)]
            case "get" | "swap" | "addupdate":
                return self._accessed(eqn, inputs)
            case "cond":
                branches = eqn.params["branches"]
                chosen = min(max(int(inputs[0]), 0), len(branches) - 1)
                return self.evaluate(branches[chosen], inputs[1:])
            case "scan":
                return self._scan(eqn, inputs)
            case "while":
                return self._while(eqn, inputs)
            case "multiple_of" | "empty" if name == "multiple_of" or not inputs:
                struct = array_struct(eqn.outvars[0])
                return inputs[:1] or [unwritten_array(struct.shape, struct.dtype)]
        if (inner := called(eqn)) is not None:
            return self.evaluate(inner, inputs)
        if name in KERNELS:
            return self._launched(eqn, inputs)
        if name == "run_scoped":
            (inner,) = inner_jaxprs(eqn)
            return self.evaluate(inner, list(map(_unwritten, inner.invars)), inputs)
        if name == "dma_start":
            return self._copied(eqn, inputs)
        if name in _ONLY_ORDER:
            return []
        if name.startswith(_NOT_TRIED) or any(isinstance(each, _Buffer) for each in inputs):
            raise NotTried(f"it has a {name}")
        if numbers := self._of_numbers(eqn, inputs):
            return numbers
        self.spend(sum(math.prod(array_struct(var).shape) for var in eqn.outvars) / ELEMENTS_OF_ONE)
        return bind(eqn, inputs)

    def _is_one_program(self, eqn: core.JaxprEqn, inputs: list[Any]) -> bool:
        """Whether jax may compile a loop or a function: no operation in it is replaced."""
        if not (inner := inner_jaxprs(eqn)) or eqn.primitive.name == "cond":
            return False
        if id(eqn) not in self._inside:
            every = [each for jaxpr in inner for each in equations(jaxpr)]
            self._inside[id(eqn)] = set(map(id, every)), {each.primitive.name for each in every}
        ids, names = self._inside[id(eqn)]
        arrays = eqn.primitive.name == "scan" or any(map(np.ndim, inputs))
        return arrays and ids.isdisjoint(self._by) and names.isdisjoint(_NOT_COMPILED)

    def _of_numbers(self, eqn: core.JaxprEqn, inputs: list[Any]) -> list[Any] | None:
        """The result of an operation on integers, which takes a tenth of the time in Python."""
        if len(eqn.outvars) != 1 or any(np.ndim(each) for each in inputs) or not inputs:
            return None
        if any(np.asarray(each).dtype.kind not in "ib" for each in inputs):
            return None
        struct = array_struct(eqn.outvars[0])
        if struct.shape or struct.dtype.kind not in "ib":
            return None
        value = computed(eqn, [np.asarray(each).item() for each in inputs])
        return None if value is None else [np.asarray(value).astype(struct.dtype)]

    def _accessed(self, eqn: core.JaxprEqn, inputs: list[Any]) -> list[Any]:
        """The contents of a part of a Ref, which a store replaces."""
        buffer, *rest = inputs
        count = 0 if eqn.primitive.name == "get" else 1
        part = _part_of(buffer, jax.tree.unflatten(eqn.params["tree"], rest[count:]))
        old = np.array(part)
        if eqn.primitive.name == "addupdate":
            part[...] = np.asarray(jnp.add(old, rest[0]))
            return []
        if count:
            part[...] = np.asarray(rest[0])
        return [old]

    def _copied(self, eqn: core.JaxprEqn, inputs: list[Any]) -> list[Any]:
        """Copy from one Ref to another."""
        source, target, *_, device = jax.tree.unflatten(eqn.params["tree"], inputs)
        if device is not None:
            raise NotTried("it sends to another device")
        ends: list[Any] = [source, target]
        of, to = (_part_of(_buffer_of(end), getattr(end, "transforms", ())) for end in ends)
        to[...] = np.asarray(jnp.add(to, of)) if eqn.params.get("add") else of
        return []

    def _scan(self, eqn: core.JaxprEqn, inputs: list[Any]) -> list[Any]:
        fixed, count = loop_constants(eqn), loop_carried(eqn)
        (inner,) = inner_jaxprs(eqn)
        params = eqn.params
        carry, rows = inputs[fixed : fixed + count], inputs[fixed + count :]
        made: list[list[Any]] = []
        turns = range(int(params["length"]))
        for turn in reversed(turns) if params["reverse"] else turns:
            given = [*inputs[:fixed], *carry, *(row[turn] for row in rows)]
            results = self.evaluate(params.get("jaxpr", inner), given)
            carry = results[:count]
            made.append(results[count:])
        ordered = made[::-1] if params["reverse"] else made
        others = len(eqn.outvars) - count
        return [*carry, *(np.stack([each[at] for each in ordered]) for at in range(others))]

    def _while(self, eqn: core.JaxprEqn, inputs: list[Any]) -> list[Any]:
        first = eqn.params["cond_nconsts"]
        fixed = first + eqn.params["body_nconsts"]
        carry = inputs[fixed:]
        while self.evaluate(eqn.params["cond_jaxpr"], [*inputs[:first], *carry])[0]:
            carry = self.evaluate(eqn.params["body_jaxpr"], [*inputs[first:fixed], *carry])
        return carry

    def _launched(self, eqn: core.JaxprEqn, inputs: list[Any]) -> list[Values]:
        arrays = list(map(np.asarray, inputs))
        if not is_pallas_call(eqn):
            return self._on_cores(eqn, arrays)
        mapping = grid_mapping(eqn)
        before = len(arrays) - mapping.num_inputs
        key = id(body(eqn)), id(mapping), *(array.tobytes() for array in arrays[:before])
        if (kernel := self._kernels.get(key)) is None:
            try:
                kernel = self._kernels[key] = KernelOnCpu(eqn, arrays, Work(math.inf))
            except NotSampled as why:
                raise NotTried(str(why)) from why
        return kernel.outputs(self, arrays[before:], [self._wanted.get(id(v)) for v in eqn.outvars])

    def _on_cores(self, eqn: core.JaxprEqn, arrays: list[Values]) -> list[Values]:
        """The outputs of a `pl.kernel` after one core after another."""
        if len(meshes := eqn.params.get("meshes") or ()) != 1 or not hasattr(meshes[0], "devices"):
            raise NotTried("its mesh has no cores")
        kernel = body(eqn)
        end = len(arrays) + len(eqn.outvars)
        outputs: list[Any] = list(map(_unwritten, kernel.invars[len(arrays) : end]))
        for given, at in dict(eqn.params["input_output_aliases"]).items():
            outputs[at] = _Buffer(arrays[given])
        operands = [*map(_Buffer, arrays), *outputs]
        for number in range(np.size(meshes[0].devices)):
            self.core = number
            contents = [*operands, *map(_unwritten, kernel.invars[end:])]
            self.refs = dict(zip(map(id, kernel.invars), contents, strict=True))
            self.evaluate(kernel, contents)
        return [output.values for output in outputs]


#: Operations that need a grid step, a Ref, or a kernel of their own; and loops that may never end.
_NOT_COMPILED = {
    *("get", "swap", "addupdate", "program_id", "num_programs", "axis_index", "while"),
    *KERNELS,
}
#: The beginnings of names of operations that need the strict interpreter.
_NOT_TRIED = ("dma_", "semaphore_", "prng", "random", "masked", "run_", "core_map", "shard_map")
#: Operations that only order others, if a kernel has no race.
_ONLY_ORDER = ("dma_wait", "semaphore_signal", "semaphore_wait", "delay")


def _buffer_of(end: Any) -> _Buffer:
    found: Any = ref_of(end)
    return found


def _part_of(buffer: _Buffer, transforms: Sequence[Any]) -> Values:
    """A part of a Ref's contents, which can be written. Raises NotTried for other views."""
    part = buffer.values
    for each in transforms:
        if not hasattr(each, "indices"):
            raise NotTried("it has views of Refs")
        indices = zip(each.indices, part.shape, strict=True)
        part = part[(*(_index(index, size) for index, size in indices), ...)]
    return part


def _unwritten(ref: core.Var) -> _Buffer | None:
    """A new buffer; None for a semaphore."""
    if memory_space(ref.aval).startswith("semaphore"):
        return None
    struct = array_struct(ref)
    return _Buffer(unwritten_array(struct.shape, struct.dtype))


def _index(index: Any, size: int) -> Any:
    """A part of a dimension for numpy. Raises OutOfBounds."""
    if hasattr(index, "stride"):
        start, count, stride = int(index.start), int(index.size), int(index.stride)
        if start < 0 or start + (count - 1) * stride >= size:
            raise OutOfBounds
        return slice(start, start + (count - 1) * stride + 1, stride)
    if np.ndim(index):
        raise NotTried("it has arrays as indices")
    if not 0 <= int(index) < size:
        raise OutOfBounds
    return int(index)


class KernelOnCpu(SampledKernel):
    """A kernel whose steps run one after another, operation by operation."""

    def _demand_plain(self) -> None:
        """All kernels are tried."""

    @functools.cached_property
    def _step_cost(self) -> float:
        return work_of(self._body)

    def outputs(
        self, launch: LaunchOnCpu, inputs: Sequence[Values], wanted: Sequence[Values | None]
    ) -> list[Values]:
        """The outputs. Raises BlockDiffers at the first block that isn't as `wanted`.

        After a run with a wrong block, only the steps of this block run first, if they give the
        same block without earlier steps.
        """
        every = range(math.prod(self.grid))
        self._inputs, self._fetched = list(inputs), {}
        if self._decisive:
            self._after(launch, self._decisive, wanted)
        try:
            return self._after(launch, every, wanted)
        except BlockDiffers as wrong:
            if self._decisive is None:
                self._decisive = self._enough(launch, wrong, wanted) or every[:0]
            raise

    #: The steps of the first wrong block; empty if all steps are needed, None before a run.
    _decisive: range | None = None

    def _enough(
        self, launch: LaunchOnCpu, wrong: BlockDiffers, wanted: Sequence[Values | None]
    ) -> range | None:
        """The last steps before a wrong block that make the same block."""
        last = wrong.step
        for begin in self._beginnings(_first_of_run(self._visits[wrong.at], last)):
            try:
                if begin:
                    self._after(launch, range(begin, last + 1), wanted)
            except BlockDiffers as again:
                same = (again.at, again.step) == (wrong.at, last)
                if same and np.array_equal(again.block, wrong.block, equal_nan=True):
                    return range(begin, last + 1)
        return None

    def _after(
        self, launch: LaunchOnCpu, steps: range, wanted: Sequence[Values | None]
    ) -> list[Values]:
        """The outputs after some steps."""
        count = len(self._specs) - self._count
        made = [unwritten_array(self.shape(at), self.dtype(at)) for at in range(count)]
        for at, given in self._aliases.items():
            made[at] = np.array(self._inputs[given])
        in_hbm = [memory_space(ref.aval) in IN_HBM for ref in self._refs]
        inputs: list[Any] = [
            _Buffer(array) if hbm else None
            for array, hbm in zip(self._inputs, in_hbm, strict=False)
        ]
        held: list[Any] = [
            _Buffer(array) if hbm else None
            for array, hbm in zip(made, in_hbm[self._count :], strict=True)
        ]
        for at, given in self._aliases.items():
            if in_hbm[given] and held[at]:
                inputs[given] = held[at]
        scratch = list(map(_unwritten, self._scratch))
        launch.sizes = [self.grid[axis] for axis in self._axes]
        for step in steps:
            ids = np.unravel_index(step, self.grid) if self.grid else [0]
            launch.ids = [ids[axis] for axis in self._axes]
            launch.spend(self._step_cost / WORK_OF_ONE)
            for at in range(self._count):
                if not in_hbm[at]:
                    inputs[at] = _Buffer(self._input(at, step))
            for at, visits in enumerate(self._visits):
                new = step == steps.start or visits[step] != visits[step - 1]
                if new and not in_hbm[self._count + at]:
                    held[at] = _unwritten(self._refs[self._count + at])
            contents = [*map(_Buffer, self._tables), *inputs, *held, *scratch]
            launch.refs = dict(zip(map(id, self._body.invars), contents, strict=True))
            launch.evaluate(self._body, contents)
            for at, buffer in enumerate(held):
                if in_hbm[self._count + at]:
                    made[at] = buffer.values
                else:
                    self._leave(launch, at, step, buffer.values, made[at], wanted[at])
        return made

    def _leave(
        self,
        launch: LaunchOnCpu,
        at: int,
        step: int,
        block: Values,
        made: Values,
        wanted: Values | None,
    ) -> None:
        """Write a block to an output after its last step. Raises BlockDiffers if it is wrong."""
        visits = self._visits[at]
        place = int(visits[step])
        if place < 0 or (visits[step + 1 : step + 2] == place).any():
            return
        start, size = self.box(at, place)
        part = tuple(slice(a, a + n) for a, n in zip(start, size, strict=True))
        made[part] = self._cut(at, block, place)
        if wanted is None or (visits[step + 1 :] == place).any():
            return
        if not launch.is_right(made[part], wanted[part]):
            raise BlockDiffers(at, step, made[part])


def _first_of_run(visits: Values, last: int) -> int:
    """The first of the steps up to `last` that follow each other and visit the same block."""
    others = np.flatnonzero(visits[:last] != visits[last])
    return int(others[-1]) + 1 if others.size else 0
