"""Which sides of each comparison, branch and loop of a solution's regions a session reaches.

A kernel with `<` instead of `<=` is wrong only where both sides are equal. `Edges` evaluates the
integers of a traced launch with numpy, on each grid step, and notes the differences of each integer
comparison in a region, the branches that run, and the turns of each loop. Floating-point numbers
inside kernels stay unknown, so this takes milliseconds where the interpreter takes seconds.
"""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from grader.exercise import specs
from grader.exercise.cases import draw
from grader.exercise.catalog import Kata
from grader.exercise.key_tables import KataKind
from grader.verdict import Case
from pallascope.kernels import TracedLaunch, for_chip
from pallascope.kernels.evaluator import Env, Evaluator, Events, bind
from pallascope.kernels.host_values import mesh_of, on_host
from pallascope.kernels.jax_internals import raw_frame_to_frame
from pallascope.kernels.jaxprs import (
    Atom,
    array_struct,
    called,
    inner_jaxprs,
    loop_carried,
    loop_constants,
    sites,
)
from pallascope.kernels.pallas_params import block_size, body, grid_mapping, is_pallas_call
from pallascope.kernels.sharding import SHARD_MAP
from pallascope.tools.arrays import dtype_of
from pallascope.tools.files import load_module
from pallascope.tools.regions import regions
from pallascope.tpu import chips

#: These programs draw a few integers, so most of their time is compilation.
_QUICKLY = {"xla_backend_optimization_level": 0}
#: First line, first column, last line, last column of an expression, as Python's frames have them.
Place = tuple[int, int, int, int]
BRANCHES = ("when", "cond", "switch")
LOOPS = ("loop", "fori_loop", "while_loop", "scan")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


@dataclass(slots=True)
class Seen:
    """A comparison, branch or loop, and what happened there in some cases.

    `below` and `above` are the least distances of a comparison's sides, None if there was none.
    `ways` are the numbers of a branch that ran, or the turns of a loop: 2 for two and more.
    `unknown` if the values depend on floating-point numbers.
    """

    text: str
    line: int
    kind: str
    below: int | None = None
    equal: bool = False
    above: int | None = None
    ways: set[int] = field(default_factory=set)
    choices: int = 0
    unknown: bool = False
    drawn: bool = False

    def compare(self, left: np.ndarray, right: np.ndarray) -> None:
        difference = np.asarray(left).astype(np.int64) - np.asarray(right).astype(np.int64)
        negative, positive = difference[difference < 0], difference[difference > 0]
        if negative.size:
            self.below = min(-int(negative.max()), self.below or 1 << 62)
        if positive.size:
            self.above = min(int(positive.min()), self.above or 1 << 62)
        self.equal |= bool((difference == 0).any())

    def missing(self) -> list[str]:
        """The sides that were not reached."""
        if self.kind == "comparison":
            sides = {"below": self.below is not None, "equal": self.equal}
            sides["above"] = self.above is not None
            return [side for side, reached in sides.items() if not reached]
        if self.kind == "branch":
            return [f"branch {n}" for n in range(self.choices) if n not in self.ways]
        names = ("no turn", "one turn", "more turns")
        return [name for n, name in enumerate(names) if n not in self.ways]


class Sessions:
    """The sessions of one kata. Each launch is traced, and each program of inputs compiled, once.

    Floating-point inputs aren't drawn: few comparisons depend on them.
    """

    def __init__(self, exercise: Kata) -> None:
        self._exercise, self._solution = exercise, load_module(exercise.solution)
        self._traces: dict[str, core.ClosedJaxpr] = {}
        self._programs: dict[str, tuple[list[jax.ShapeDtypeStruct], Any]] = {}

    def seen(self, seed: int) -> dict[Place, Seen]:
        """What the cases that a session runs reach at each place."""
        kata, found = self._exercise, dict[Place, Seen]()
        edges = Edges(str(kata.solution), kata.solution.read_text(), found)
        for case in draw(kata.id, kata.key, seed):
            if not case.production:
                inputs = self._inputs(case)
                known = [x if isinstance(x, np.ndarray) else None for x in inputs]
                edges.launch(self._trace(case, inputs), known)
        return found

    def _trace(self, case: Case, inputs: Sequence[Any]) -> core.ClosedJaxpr:
        kata, launch = self._exercise, getattr(self._solution, self._exercise.name)
        structs = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in inputs]
        if (known := self._traces.get(which := f"{case} {structs}")) is not None:
            return known
        keywords: dict[str, Any] = keywords_of(launch, case)
        chip = chips.named(chips.chips_with_cores(kata.key.cores, (chips.DEFAULT,))[0])
        with for_chip(chip.kind, chip.cores, kata.key.mesh):
            if kata.key.mesh:
                keywords["mesh"] = jax.sharding.get_abstract_mesh()
            return self._traces.setdefault(which, TracedLaunch.of(launch, structs, keywords).closed)

    def _inputs(self, case: Case) -> list[Any]:
        """Arrays of integers, and the shapes of the others."""
        make = getattr(self._solution, f"{self._exercise.name}_inputs", None)
        if make is None:
            return specs.drawn_inputs(self._solution, self._exercise.name, case)
        key = jax.random.key(case.seed, impl="rbg")
        try:
            structs, program = self._program(make, case, key)
        except jax.errors.JAXTypeError:  # shapes depend on drawn values
            return specs.drawn_inputs(self._solution, self._exercise.name, case)
        values = iter(program(key) if program else ())
        return [np.asarray(next(values)) if _is_whole(s.dtype) else s for s in structs]

    def _program(self, make: Any, case: Case, key: Any) -> tuple[list[Any], Any]:
        if (known := self._programs.get(str(case))) is not None:
            return known
        keywords = {"dtype": dtype_of(case.dtype), **keywords_of(make, case)}
        structs = list(jax.eval_shape(lambda key: make(key, **keywords), key))

        def integers(key: Any) -> list[Any]:
            return [array for array in make(key, **keywords) if _is_whole(array.dtype)]

        some = any(_is_whole(struct.dtype) for struct in structs)
        program = jax.jit(integers, compiler_options=_QUICKLY) if some else None
        return self._programs.setdefault(str(case), (structs, program))


def is_evaluated(exercise: Kata) -> bool:
    """Whether a kata has a launch for TPUs, or plain jax.numpy, with something to note."""
    key = exercise.key
    if key.kind in (KataKind.PREDICTIONS, KataKind.TEST) or key.target.name == "gpu":
        return False
    return bool(places_of(exercise.solution.read_text()))


def keywords_of(function: Any, case: Case) -> dict[str, Any]:
    names = inspect.signature(function).parameters
    return {name: size for name, size in case.sizes.items() if name in names}


def _is_whole(dtype: Any) -> bool:
    return np.dtype(dtype).kind in "iub"


def places_of(text: str) -> dict[Place, tuple[str, str]]:
    """The comparisons, branches and loops in a file's regions: kind and source text of each."""
    inside, found = regions(text), {}
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, (ast.Compare, ast.Call)) or not any(
            node.lineno in region for region in inside
        ):
            continue
        if isinstance(node, ast.Compare):
            kind = "comparison"
        elif (name := _function(node)) in BRANCHES:
            if _asks_one_comparison(node):  # whose sides are the branches
                continue
            kind = "branch"
        elif name in LOOPS:
            kind = "loop"
        else:
            continue
        source = " ".join((ast.get_source_segment(text, node) or "").split())
        place = node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0
        found[place] = kind, source
    return found


def _function(call: ast.Call) -> str:
    """The last name of the function that is called; of pl.when(…)(…), too."""
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case ast.Call() as inner:
            return _function(inner)
    return ""


class Drawn(np.ndarray):
    """A value that depends on the inputs' contents, not on their sizes alone."""


def _asks_one_comparison(call: ast.Call) -> bool:
    inner = call.func if isinstance(call.func, ast.Call) else call
    return bool(inner.args) and isinstance(inner.args[0], ast.Compare)


@dataclass(slots=True, eq=False)
class Memory:
    """The contents of a Ref; None if they are unknown."""

    array: np.ndarray | None


class Unknown:
    """Stands for an unknown number where None means that there is none."""


class Edges(Evaluator):
    """Evaluates a trace with the integers of one case, and notes the values at each place.

    `seen` maps the place of an expression to its record; evaluate the launches of several cases of
    one file with the same `seen`.
    """

    def __init__(self, file: str, text: str, seen: dict[Place, Seen] | None = None) -> None:
        self._file, self._places = file, places_of(text)
        self.seen = {} if seen is None else seen
        self._known: dict[int, tuple[core.JaxprEqn, Place | None]] = {}
        self._step: tuple[int, ...] = ()
        self._grid: tuple[int, ...] = ()
        self._inside = False
        self._device: dict[str, np.int32] = {}

    def launch(self, closed: core.ClosedJaxpr, inputs: Sequence[np.ndarray | None]) -> None:
        """Evaluate a launch for inputs; None for those whose contents don't matter.

        A place that is traced and never evaluated misses everything.
        """
        for site in sites(closed.jaxpr, _with_index_maps):
            name = site.eqn.primitive.name
            if name in COMPARISONS and _is_integer(site.eqn.invars[0]):
                self._at(site.eqn, "comparison")
            elif name in ("cond", "scan", "while"):
                self._at(site.eqn, "branch" if name == "cond" else "loop")
        with on_host(), np.errstate(all="ignore"):
            drawn = (None if value is None else np.asarray(value).view(Drawn) for value in inputs)
            self.evaluate(closed, list(drawn))

    def operation(self, eqn: core.JaxprEqn, inputs: list[Any], env: Env) -> Sequence[Any] | Events:
        results = self._results(eqn, inputs)
        if any(isinstance(value, Drawn) for value in inputs):
            return [one if one is None else np.asarray(one).view(Drawn) for one in results]
        return results

    def _results(self, eqn: core.JaxprEqn, inputs: list[Any]) -> Sequence[Any]:
        name, unknown = eqn.primitive.name, [None] * len(eqn.outvars)
        if name in COMPARISONS:
            self._note_comparison(eqn, inputs)
        if name in ("cond", "scan", "while"):
            return getattr(self, f"_{name}")(eqn, inputs)
        if (jaxpr := called(eqn)) is not None:
            return self.evaluate(jaxpr, inputs)
        if is_pallas_call(eqn):
            return self._kernel(eqn, inputs)
        if name == SHARD_MAP:
            return self._on_devices(eqn, inputs)
        if name == "axis_index":
            return [self._device.get(eqn.params["axis_name"])]
        if name == "run_scoped":
            return self._scoped(eqn, inputs)
        if (access := _ACCESSES.get(name)) is not None:
            return access(eqn, inputs)
        if name in ("program_id", "num_programs"):
            values = self._step if name == "program_id" else self._grid
            return [np.int32(values[eqn.params["axis"]])]
        if any(value is None or isinstance(value, Memory) for value in inputs):
            return [_decided(name, inputs)] if len(unknown) == 1 else unknown
        if self._inside and any(_is_floating(var) for var in eqn.outvars):
            return unknown
        if (function := _FUNCTIONS.get(name)) is not None and len(unknown) == 1:
            return [_cast(function(eqn.params, *inputs), eqn.outvars[0])]
        if eqn.effects or not unknown:
            return unknown
        try:
            return [np.asarray(one) for one in bind(eqn, [jnp.asarray(value) for value in inputs])]
        except Exception:  # only a TPU or a mesh can evaluate it
            return unknown

    # ---- notes ----

    def _at(self, eqn: core.JaxprEqn, kind: str) -> Seen | None:
        """The record of an equation's expression; None outside of regions."""
        if id(eqn) not in self._known:
            self._known[id(eqn)] = eqn, self._place(eqn)
        place = self._known[id(eqn)][1]
        if place is None or self._places[place][0] != kind:
            return None
        return self.seen.setdefault(place, Seen(self._places[place][1], place[0], kind))

    def _place(self, eqn: core.JaxprEqn) -> Place | None:
        trace = eqn.source_info.traceback
        for code, instruction in () if trace is None else zip(*trace.raw_frames(), strict=True):
            if code.co_filename == self._file:
                frame = raw_frame_to_frame(code, instruction)
                place = frame.start_line, frame.start_column, frame.end_line, frame.end_column
                return place if place in self._places else None
        return None

    def _compares(self, closed: core.ClosedJaxpr) -> bool:
        """Whether anything in an index map is noted."""
        return any(self._place(site.eqn) is not None for site in sites(closed.jaxpr))

    def _note_comparison(self, eqn: core.JaxprEqn, inputs: Sequence[Any]) -> None:
        if not _is_integer(eqn.invars[0]) or not math.prod(array_struct(eqn.invars[0]).shape):
            return
        if (seen := self._at(eqn, "comparison")) is not None:
            left, right = inputs
            if left is None or right is None:
                seen.unknown = True
            else:
                seen.compare(left, right)
                seen.drawn |= isinstance(left, Drawn) or isinstance(right, Drawn)

    # ---- branches, loops, scopes ----

    def _cond(self, eqn: core.JaxprEqn, inputs: list[Any]) -> Sequence[Any]:
        branches, seen = inner_jaxprs(eqn), self._at(eqn, "branch")
        if seen is not None:
            seen.choices = len(branches)
        if inputs[0] is None:
            if seen is not None:
                seen.unknown = True
            return [None] * len(eqn.outvars)
        chosen = min(max(int(inputs[0]), 0), len(branches) - 1)
        if seen is not None:
            seen.ways.add(chosen)
            seen.drawn |= isinstance(inputs[0], Drawn)
        return self.evaluate(eqn.params["branches"][chosen], inputs[1:])

    def _note_turns(self, eqn: core.JaxprEqn, turns: int | None, drawn: bool = False) -> None:
        if (seen := self._at(eqn, "loop")) is not None:
            seen.drawn |= drawn
            seen.unknown |= turns is None
            seen.ways |= set() if turns is None else {min(turns, 2)}

    def _scan(self, eqn: core.JaxprEqn, inputs: list[Any]) -> Sequence[Any]:
        fixed, count, length = loop_constants(eqn), loop_carried(eqn), int(eqn.params["length"])
        self._note_turns(eqn, length)
        carry, columns = inputs[fixed : fixed + count], inputs[fixed + count :]
        rows: list[Sequence[Any]] = []
        order = range(length)[:: -1 if eqn.params["reverse"] else 1]
        for turn in order:
            row = [None if column is None else column[turn] for column in columns]
            results = self.evaluate(eqn.params["jaxpr"], [*inputs[:fixed], *carry, *row])
            carry, out = results[:count], results[count:]
            rows.append(out)
        stacked = [
            None if any(one is None for one in column) else np.stack(column)[:: order.step]
            for column in zip(*rows, strict=True)
        ]
        return [*carry, *(stacked or [None] * (len(eqn.outvars) - count))]

    def _while(self, eqn: core.JaxprEqn, inputs: list[Any]) -> Sequence[Any]:
        first = eqn.params["cond_nconsts"]
        fixed = first + eqn.params["body_nconsts"]
        carry, turns = inputs[fixed:], 0
        while True:
            (goes_on,) = self.evaluate(eqn.params["cond_jaxpr"], [*inputs[:first], *carry])
            if goes_on is None:
                self._note_turns(eqn, None)
                return [None] * len(eqn.outvars)
            if not goes_on:
                self._note_turns(eqn, turns, isinstance(goes_on, Drawn))
                return carry
            carry = self.evaluate(eqn.params["body_jaxpr"], [*inputs[first:fixed], *carry])
            turns += 1

    def _scoped(self, eqn: core.JaxprEqn, inputs: list[Any]) -> Sequence[Any]:
        (jaxpr,) = inner_jaxprs(eqn)
        results = self.events(jaxpr, [_scratch(var) for var in jaxpr.invars], inputs)
        return _returned(results)

    def _on_devices(self, eqn: core.JaxprEqn, inputs: list[Any]) -> Sequence[Any]:
        """Evaluate the body of a shard_map on each device. Its results are unknown."""
        axes, (jaxpr,) = mesh_of(eqn), inner_jaxprs(eqn)
        for place in np.ndindex(*(size for _, size in axes)):
            at = {name: (number, size) for (name, size), number in zip(axes, place, strict=True)}
            self._device = {name: np.int32(number) for name, (number, _) in at.items()}
            shards = zip(inputs, eqn.params["in_specs"], strict=True)
            self.evaluate(jaxpr, [_shard(value, spec, at) for value, spec in shards])
        return [None] * len(eqn.outvars)

    # ---- kernels ----

    def _kernel(self, eqn: core.JaxprEqn, inputs: list[Any]) -> Sequence[Any]:
        mapping, kernel = grid_mapping(eqn), body(eqn)
        dynamic = sum(not isinstance(size, int) for size in mapping.grid)
        sizes = iter(inputs[:dynamic])
        grid = [size if isinstance(size, int) else next(sizes) for size in mapping.grid]
        if None in grid:
            return [None] * len(eqn.outvars)
        self._grid = tuple(max(int(size), 0) for size in grid)
        self._inside = True
        scalars, ins = mapping.num_index_operands, mapping.num_inputs
        operands = inputs[dynamic:]
        tables = [Memory(_copied(value)) for value in operands[:scalars]]
        outputs = [_empty(var) for var in eqn.outvars]
        for given, result in eqn.params["input_output_aliases"]:
            outputs[result] = _copied(inputs[given])
        arrays = [_of_integers(value) for value in [*operands[scalars:], *outputs]]
        specs = mapping.block_mappings[: ins + mapping.num_outputs]
        scratch = [_scratch(var) for var in kernel.invars[scalars + len(specs) :]]
        compares = [self._compares(spec.index_map_jaxpr) for spec in specs]
        for step in np.ndindex(self._grid):
            self._step = step
            at = [np.int32(index) for index in step]
            for spec, array, noted in zip(specs, arrays, compares, strict=True):
                if noted and array is None:
                    self.evaluate(spec.index_map_jaxpr, [*at, *tables])
            blocks = [
                Memory(None if array is None else self._block(spec, array, [*at, *tables]))
                for spec, array in zip(specs, arrays, strict=True)
            ]
            self.evaluate(kernel, [*tables, *blocks, *scratch])
            for number, block in enumerate(blocks[ins:], ins):
                arrays[number] = None if block.array is None else arrays[number]
        self._inside = False
        return arrays[ins:]

    def _block(self, spec: Any, array: np.ndarray, inputs: list[Any]) -> np.ndarray | None:
        """The block of an array of integers, on a step; a view, unless it crosses the end."""
        sizes = [block_size(dim) for dim in spec.block_shape]
        if all(size == whole for size, whole in zip(sizes, array.shape, strict=True)):
            return array
        indices = self.evaluate(spec.index_map_jaxpr, inputs)[: len(sizes)]
        if any(index is None for index in indices):
            return None
        cuts: list[Any] = []
        for dim, size, index in zip(spec.block_shape, sizes, indices, strict=True):
            start = int(index) * (1 if type(dim).__name__ == "Element" else size or 1)
            cuts.append(start if size is None else slice(start, start + size))
        block = array[tuple(cuts)]
        shape = [size for size in sizes if size is not None]
        if list(block.shape) != shape:
            missing = [(0, size - there) for size, there in zip(shape, block.shape, strict=True)]
            block = np.pad(block, missing)
        return block


def _shard(value: Any, spec: Any, at: Mapping[str, tuple[int, int]]) -> Any:
    """A device's part of an input; `at` has its number along each axis, and the axis' size."""
    if value is None:
        return None
    for dimension, entry in enumerate(spec):
        for name in entry if isinstance(entry, tuple) else (entry,) * (entry is not None):
            number, count = at[name]
            size = value.shape[dimension] // count
            value = value.take(range(number * size, (number + 1) * size), dimension)
    return value


def _returned(events: Events) -> list[Any]:
    try:
        next(events)
    except StopIteration as end:
        return end.value
    raise AssertionError("an event that nobody takes")


def _with_index_maps(eqn: core.JaxprEqn) -> list[core.Jaxpr]:
    inner = inner_jaxprs(eqn)
    if is_pallas_call(eqn):
        inner += [spec.index_map_jaxpr.jaxpr for spec in grid_mapping(eqn).block_mappings]
    return inner


def _is_integer(atom: Atom) -> bool:
    return jnp.issubdtype(getattr(atom.aval, "dtype", np.float32), jnp.integer)


def _is_floating(var: core.Var) -> bool:
    return jnp.issubdtype(getattr(var.aval, "dtype", np.dtype(np.int32)), jnp.floating)


def _of_integers(value: Any) -> np.ndarray | None:
    if value is None or np.asarray(value).dtype.kind not in "iub":
        return None
    return np.asarray(value)


def _copied(value: Any) -> np.ndarray | None:
    return None if value is None else np.array(value)


def _empty(var: core.Var) -> np.ndarray | None:
    struct = array_struct(var)
    return np.zeros(struct.shape, struct.dtype) if struct.dtype.kind in "iub" else None


def _scratch(var: core.Var) -> Memory:
    aval: Any = var.aval
    dtype = getattr(aval, "dtype", np.float32)  # a semaphore's isn't one of numpy's
    known = any(jnp.issubdtype(dtype, kind) for kind in (np.integer, np.bool_))
    return Memory(np.zeros(aval.shape, dtype) if known else None)


# ---- memory ----


def _indices(transforms: Sequence[Any]) -> tuple[Any, ...] | None:
    """numpy's index for at most one indexer; None if it is unknown."""
    if not transforms:
        return (...,)
    (indexer, *more) = transforms
    found: list[Any] = []
    if more or not hasattr(indexer, "indices"):
        return None
    for index in indexer.indices:
        ends = (index.start, index.size) if hasattr(index, "stride") else (index,)
        if any(isinstance(end, (Unknown, Memory)) for end in ends):
            return None
        if len(ends) == 2:
            start, size = map(int, ends)
            found.append(slice(start, start + size * index.stride, index.stride))
        else:
            found.append(np.asarray(index))
    return tuple(found)


def _end(eqn: core.JaxprEqn, inputs: Sequence[Any], first: int) -> tuple[Any, ...] | None:
    given = [Unknown() if value is None else value for value in inputs[first:]]
    return _indices(jax.tree.unflatten(eqn.params["tree"], given))


def _get(eqn: core.JaxprEqn, inputs: list[Any]) -> Sequence[Any]:
    memory, index = inputs[0], _end(eqn, inputs, 1)
    if not isinstance(memory, Memory) or memory.array is None or index is None:
        return [None]
    (out,) = eqn.outvars
    try:
        return [_cast(memory.array[index].reshape(array_struct(out).shape), out).view(Drawn)]
    except (IndexError, ValueError):
        return [None]


def _swap(eqn: core.JaxprEqn, inputs: list[Any]) -> Sequence[Any]:
    memory, value, index = inputs[0], inputs[1], _end(eqn, inputs, 2)
    if isinstance(memory, Memory):
        _write(memory, index, value)
    return [None]


def _write(memory: Memory, index: tuple[Any, ...] | None, value: Any) -> None:
    if memory.array is None:
        return
    if index is None or value is None:
        memory.array = None
        return
    target = memory.array[index]
    memory.array[index] = np.reshape(value, np.shape(target))


def _dma(eqn: core.JaxprEqn, inputs: list[Any]) -> Sequence[Any]:
    """A copy happens at once."""
    given = [Unknown() if value is None else value for value in inputs]
    source, target, *_ = jax.tree.unflatten(eqn.params["tree"], given)
    (from_memory, from_index), (to_memory, to_index) = _of_end(source), _of_end(target)
    if isinstance(to_memory, Memory) and to_memory.array is not None:
        known = from_memory.array if isinstance(from_memory, Memory) else None
        value = None if known is None or from_index is None else known[from_index]
        _write(to_memory, to_index, value)
    return [None] * len(eqn.outvars)


def _of_end(end: Any) -> tuple[Any, tuple[Any, ...] | None]:
    if hasattr(end, "transforms"):
        return end.ref, _indices(end.transforms)
    return end, (...,)


_ACCESSES = MappingProxyType(
    {"get": _get, "load": _get, "swap": _swap, "masked_swap": _swap, "dma_start": _dma}
)

# ---- operations ----


def _cast(value: Any, var: core.Var) -> np.ndarray:
    return np.asarray(value).astype(array_struct(var).dtype, copy=False)


def _decided(name: str, inputs: Sequence[Any]) -> Any:
    """The result of `and` or `or` that one known scalar decides alone; otherwise None."""
    for value in inputs if name in ("and", "or") else ():
        is_number = value is not None and not isinstance(value, Memory) and np.ndim(value) == 0
        if is_number and np.asarray(value).dtype == np.bool_ and bool(value) is (name == "or"):
            return value
    return None


def _quotient(_: Any, one: Any, other: Any) -> Any:
    one, other = np.asarray(one), np.asarray(other)
    if one.dtype.kind == "f" or other.dtype.kind == "f":
        return one / other
    other = np.where(other == 0, 1, other)
    size = np.abs(one) // np.abs(other)
    return np.where((one < 0) == (other < 0), size, -size)


def _rest(params: Any, one: Any, other: Any) -> Any:
    return one - other * _quotient(params, one, other)


def _broadcast(params: Any, value: Any, *_: Any) -> Any:
    shape = [1] * len(params["shape"])
    for axis, size in zip(params["broadcast_dimensions"], np.shape(value), strict=True):
        shape[axis] = size
    return np.broadcast_to(np.reshape(value, shape), params["shape"])


def _iota(params: Any) -> Any:
    shape, axis = params["shape"], params["dimension"]
    along = [shape[axis] if n == axis else 1 for n in range(len(shape))]
    return np.broadcast_to(np.arange(shape[axis]).reshape(along), shape)


def _slice(params: Any, value: Any) -> Any:
    strides = params["strides"] or [1] * np.ndim(value)
    cuts = zip(params["start_indices"], params["limit_indices"], strides, strict=True)
    return value[tuple(slice(*cut) for cut in cuts)]


_FUNCTIONS: Mapping[str, Any] = MappingProxyType(
    {
        "add": lambda _, a, b: np.add(a, b),
        "sub": lambda _, a, b: np.subtract(a, b),
        "mul": lambda _, a, b: np.multiply(a, b),
        "div": _quotient,
        "rem": _rest,
        "neg": lambda _, a: np.negative(a),
        "abs": lambda _, a: np.abs(a),
        "sign": lambda _, a: np.sign(a),
        "max": lambda _, a, b: np.maximum(a, b),
        "min": lambda _, a, b: np.minimum(a, b),
        "clamp": lambda _, low, a, high: np.minimum(np.maximum(low, a), high),
        "eq": lambda _, a, b: np.equal(a, b),
        "ne": lambda _, a, b: np.not_equal(a, b),
        "lt": lambda _, a, b: np.less(a, b),
        "le": lambda _, a, b: np.less_equal(a, b),
        "gt": lambda _, a, b: np.greater(a, b),
        "ge": lambda _, a, b: np.greater_equal(a, b),
        "and": lambda _, a, b: np.bitwise_and(a, b),
        "or": lambda _, a, b: np.bitwise_or(a, b),
        "xor": lambda _, a, b: np.bitwise_xor(a, b),
        "not": lambda _, a: np.invert(a),
        "shift_left": lambda _, a, b: np.left_shift(a, b),
        "shift_right_arithmetic": lambda _, a, b: np.right_shift(a, b),
        "select_n": lambda _, which, *cases: (
            np.where(which, cases[1], cases[0]) if len(cases) == 2 else np.choose(which, cases)
        ),
        "convert_element_type": lambda _, a: a,
        "broadcast_in_dim": _broadcast,
        "iota": _iota,
        "reshape": lambda p, a: np.reshape(a, p["new_sizes"]),
        "squeeze": lambda p, a: np.squeeze(a, tuple(p["dimensions"])),
        "transpose": lambda p, a: np.transpose(a, p["permutation"]),
        "concatenate": lambda p, *arrays: np.concatenate(arrays, p["dimension"]),
        "slice": _slice,
        "reduce_sum": lambda p, a: np.sum(a, tuple(p["axes"])),
        "reduce_max": lambda p, a: np.max(a, tuple(p["axes"])),
        "reduce_min": lambda p, a: np.min(a, tuple(p["axes"])),
        "reduce_or": lambda p, a: np.any(a, tuple(p["axes"])),
        "reduce_and": lambda p, a: np.all(a, tuple(p["axes"])),
        "multiple_of": lambda _, a: a,
        "copy": lambda _, a: a,
        "stop_gradient": lambda _, a: a,
    }
)
