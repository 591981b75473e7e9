"""Operations around kernels, which of them are free (reshapes), and large constants of a trace.

The constants are arrays that were computed before the trace was made. For each result, the trace
also shows whether it depends on a kernel.

Some operations are free for XLA: those that return their operand, such as an optimization_barrier,
and bitcasts, which give the same bytes another shape. A TPU stores an array in tiles over its last
two dimensions, 8 rows of 128 columns, and packs the rows of narrow dtypes: those of bfloat16 in
pairs. So whether a reshape is a bitcast follows from the place of each element in both shapes.

`block_sample` computes a few elements of each result. The operations run as they are, around the
blocks of `block_samples.py`. Elements of a kernel's output that weren't computed are unknown, so an
operation on such an output runs twice, with two different fills. Elements that are equal in both
results are known.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.dtypes import float0
from jax.extend import core

from pallascope.kernels.block_samples import (
    MOST_BYTES,
    MOST_ELEMENTS,
    MOST_IN_BLOCKS,
    MOST_WORK,
    MOST_WORK_BESIDE,
    KernelOutput,
    NotSampled,
    Repeated,
    Reshaped,
    RunsAsAWhole,
    SampledKernel,
    Values,
    Work,
    blocks_of,
    root_of,
    taken,
    unwritten_array,
    whole,
)
from pallascope.kernels.calls import array_type, operation
from pallascope.kernels.evaluator import Env, Evaluator, bind, without_refs
from pallascope.kernels.host_values import on_host
from pallascope.kernels.interpreter import assume_multiples
from pallascope.kernels.jaxprs import (
    CALLS,
    Atom,
    Shaped,
    array_struct,
    called,
    closed_jaxprs,
    equations,
    expanded,
    first_use,
    has_effects,
    inner_jaxprs,
    is_identity,
    primitives,
    repetitions,
)
from pallascope.kernels.operation_counts import ELEMENTWISE, product_work, work_of
from pallascope.kernels.pallas_params import KERNELS
from pallascope.kernels.sharding import SHARD_MAP
from pallascope.kernels.source_lines import line_in
from pallascope.model import BlockSample, Constant, Operation, ResultSample
from pallascope.tools.arrays import from_numpy

#: The limit for a constant in bytes, enough for a few numbers that arrange a launch.
MAX_CONSTANT_BYTES = 4 << 10

_LANES = 128
_WORD = 32  # bits; narrower elements are packed into words
_ROWS = 8  # a tile's rows of words


def is_bitcast(eqn: core.JaxprEqn, from_kernel: bool = True, to_kernel: bool = True) -> bool:
    """Whether an operation around a kernel moves no byte on a TPU, or one element at most.

    If not `from_kernel`, XLA has chosen the layout of its operand, such as an argument of the
    launch; if not `to_kernel`, that of its result.
    """
    if is_identity(eqn) or eqn.primitive.name == "empty":
        return True
    if eqn.outvars and all(_has_no_bytes(var.aval) for var in eqn.outvars):
        return True
    arrays: list[Any] = [var.aval for var in (*eqn.invars[:1], *eqn.outvars)]
    if len(arrays) != 2 or not all(isinstance(array, Shaped) for array in arrays):
        return False
    given, made = (tuple(array.shape) for array in arrays)
    if not keeps_order(eqn, given) or math.prod(given) != math.prod(made):
        return False
    bits = _bits(arrays[0].dtype)
    return math.prod(made) == 1 or not _layouts(given, bits, from_kernel).isdisjoint(
        _layouts(made, bits, to_kernel)
    )


def _has_no_bytes(array: Any) -> bool:
    """Whether an array is the gradient of integers."""
    return isinstance(array, Shaped) and array.dtype == float0


def keeps_order(eqn: core.JaxprEqn, given: tuple[int, ...]) -> bool:
    """Whether an operation leaves the elements in their row-major order."""
    params: dict[str, Any] = eqn.params
    match eqn.primitive.name:
        case "reshape":
            return params.get("dimensions") is None
        case "squeeze" | "expand_dims":
            return True
        case "broadcast_in_dim" | "stack":  # jnp.expand_dims and x[None]; the size shows copies
            return len(eqn.invars) == 1
        case "transpose":
            moved = [axis for axis in params["permutation"] if given[axis] != 1]
            return moved == sorted(moved)
    return is_identity(eqn)


def _bits(dtype: Any) -> int:
    """The bits of an element in HBM; booleans take a byte, and int4 four bits."""
    if jnp.issubdtype(dtype, jnp.integer):
        return jnp.iinfo(dtype).bits
    return jnp.finfo(dtype).bits if jnp.issubdtype(dtype, jnp.floating) else dtype.itemsize * 8


#: The digits of an element's address, the highest first. Each is given as its base, and as the
#: distance in row-major order of elements that differ by one in this digit alone; 0 for padding.
_Layout = tuple[tuple[int, int], ...]


def _layouts(shape: tuple[int, ...], bits: int, kernel: bool) -> set[_Layout]:
    """The layouts that an array has on a TPU: equal ones have each element in the same place.

    As an operand or result of a `kernel`, its dimensions are in order, and XLA chooses the tiles.
    Otherwise it has the largest tiles, with its dimensions in the order that needs least padding.
    """
    distances = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    tiles = _tiles(shape, bits)
    made = {_layout(shape, distances, tiles)}
    if kernel:
        return made | {_layout(shape, distances, _tiles(shape, bits, largest=False))}
    order = _compact(shape, bits)
    shape = tuple(shape[axis] for axis in order)
    return made | {_layout(shape, [distances[n] for n in order], _tiles(shape, bits))}


def _compact(shape: tuple[int, ...], bits: int) -> list[int]:
    """The order of an array's dimensions for which its tiles have the least padding."""
    axes = range(len(shape))
    if len(shape) < 2:
        return list(axes)

    def padded(order: Sequence[int]) -> int:
        *others, last, lane = (shape[axis] for axis in order)
        rows, lanes = _tiles((last, lane), bits)[0]
        return math.prod(others) * -(-last // rows) * rows * -(-lane // lanes) * lanes

    pairs = itertools.permutations(reversed(axes), 2)
    orders = [[*(n for n in axes if n not in (lane, row)), row, lane] for lane, row in pairs]
    return min(orders, key=padded)  # the first of equals


def _tiles(shape: tuple[int, ...], bits: int, largest: bool = True) -> list[tuple[int, ...]]:
    """XLA's tiles for an array on a TPU, each a tile of the one before: T(8,128)(2,1) in HLO."""
    packed = max(_WORD // bits, 1)
    words = [(packed, 1)] if packed > 1 else []
    if len(shape) < 2:
        size = min(max(_power_of_two(*shape), _LANES * packed), _ROWS * _LANES)
        return [(size,), *([(_LANES,)] if words else []), *words]
    rows = min(max(_power_of_two(shape[-2]), packed), _ROWS)
    if largest and packed > 2 and shape[-2] % (_ROWS * packed) == 0:
        rows = _ROWS * packed
    return [(rows, _LANES), *words]


def _power_of_two(size: int = 1) -> int:
    return 1 << max(size - 1, 0).bit_length()


def _layout(
    shape: Sequence[int], distances: Sequence[int], tiles: Sequence[tuple[int, ...]]
) -> _Layout:
    digits = [(size, size, step) for size, step in zip(shape, distances, strict=True)]
    for tile in tiles:  # a digit: its base, the number of values in use, the distance
        whole = [(1, 1, 0)] * (len(tile) - len(digits)) + digits[-len(tile) :]
        pairs = list(zip(whole, tile, strict=True))
        digits[-len(tile) :] = [(-(-n // m), -(-used // m), d * m) for (n, used, d), m in pairs]
        digits += [(m, min(used, m), d) for (_, used, d), m in pairs]
    merged: list[tuple[int, int]] = []
    for base, used, distance in digits:
        step = distance if used > 1 else 0
        if base > 1 and merged and merged[-1][1] == base * step:
            merged[-1] = merged[-1][0] * base, step
        elif base > 1:
            merged.append((base, step))
    return tuple(merged)


def large_constants(closed: core.ClosedJaxpr, file: str) -> Iterator[Constant]:
    """The arrays larger than MAX_CONSTANT_BYTES whose contents are in a trace, also in kernels."""
    yield from _closed_over(closed, file)
    for eqn in equations(closed.jaxpr):
        for atom in eqn.invars:
            if isinstance(atom, core.Literal) and (size := _bytes(atom.val)) > MAX_CONSTANT_BYTES:
                yield Constant(array_type(atom.aval), size, line_in(eqn, file))
        for inner in closed_jaxprs(eqn):
            yield from _closed_over(inner, file)


def _closed_over(closed: core.ClosedJaxpr, file: str) -> Iterator[Constant]:
    """The large constants of one jaxpr, with the line of the equation that uses each first."""
    for var, constant in zip(closed.jaxpr.constvars, closed.consts, strict=False):
        if (size := _bytes(constant)) > MAX_CONSTANT_BYTES:
            first = first_use(closed.jaxpr, var)
            line = line_in(first, file) if first is not None else 0
            yield Constant(array_type(var.aval), size, line)


def _bytes(value: object) -> int:
    return int(getattr(value, "nbytes", 0) or 0)


_WRAPPERS = (*CALLS, "call_hi_primitive")


class OutsideReader(Evaluator):
    """Reads a trace outside of kernels; gathers kernels and other operations in program order.

    Leaves out operations that move no byte. A value is whether it depends on a kernel.

    `from_kernel` says for each result whether it depends on a kernel. `file` is the judged one,
    for the lines of the operations.
    """

    def __init__(self, closed: core.ClosedJaxpr, file: str = "") -> None:
        self.kernels: list[core.JaxprEqn] = []
        self.outside: list[Operation] = []
        self._file = file
        self._results = set(map(id, closed.jaxpr.outvars))
        # jax traces its own functions once, with the lines of their first caller: the line of an
        # operation in them is that of the call. The surrounding scans run them this many times.
        self._line, self._times = 0, 1
        self.from_kernel = self.evaluate(closed.jaxpr, [False] * len(closed.jaxpr.invars))

    def constant(self, value: object) -> bool:
        return False

    def value(self, atom: Atom, env: Env) -> bool:
        return isinstance(atom, core.Var) and env.get(atom, False)

    def operation(self, eqn: core.JaxprEqn, inputs: list[bool], env: Env) -> list[bool]:
        count = len(eqn.outvars)
        if eqn.primitive.name in KERNELS:
            self.kernels.append(eqn)
            return [True] * count
        inner = inner_jaxprs(eqn) or expanded(eqn)
        caller, times = self._line, self._times
        self._line = (line_in(eqn, self._file) if self._file else 0) or caller
        ends = count == 1 and id(eqn.outvars[0]) in self._results
        free = is_bitcast(eqn, from_kernel=any(inputs[:1]), to_kernel=not ends)
        if not (free or (eqn.primitive.name in _WRAPPERS and inner)):
            self.outside.append(operation(eqn, self._line, times))
        self._times *= repetitions(eqn)
        results = [False if inner else any(inputs)] * count
        for jaxpr in inner:
            # A cond's first operand chooses the branch; the rest line up with each branch's.
            aligned = inputs[len(inputs) - len(jaxpr.invars) :]
            if len(aligned) != len(jaxpr.invars):
                aligned = [any(inputs)] * len(jaxpr.invars)
            branch = self.evaluate(jaxpr, aligned)
            branch = branch if len(branch) == count else [any(branch)] * count
            results = [before or now for before, now in zip(results, branch, strict=True)]
        self._line, self._times = caller, times
        return results


@dataclass(slots=True, eq=False)
class _Node:
    """An operation around the kernels, which is evaluated once its results are needed."""

    eqn: core.JaxprEqn
    inputs: list[Any]
    results: list[Values] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class _Deferred:
    """A result of such an operation."""

    node: _Node
    number: int
    outside: _Outside

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(array_struct(self.node.eqn.outvars[self.number]).shape)

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(array_struct(self.node.eqn.outvars[self.number]).dtype)

    def take(self, flat: Values) -> Values:
        return taken(self.outside.computed([self])[0], flat)


#: Operations that keep all elements in their order.
_RESHAPES = ("reshape", "squeeze", "expand_dims")


@dataclass(slots=True)
class _Outside(Evaluator):
    """Evaluates a launch around its kernels. A value is an array, or a `Sliced`.

    `other` chooses one of two fills for what wasn't computed; `filled`: a fill was needed.
    `seed` and `targets` choose the blocks, as for `blocks_of`.
    """

    seed: int
    targets: int
    work: Work
    other: bool
    filled: bool = False
    bytes: int = 0

    def constant(self, value: Any) -> Values:
        return np.asarray(value)

    def value(self, atom: Atom, env: Env) -> Any:
        if isinstance(atom, core.Literal):
            return np.asarray(atom.val, array_struct(atom).dtype)
        return env[atom]

    def operation(self, eqn: core.JaxprEqn, inputs: list[Any], env: Env) -> Sequence[Any]:
        name = eqn.primitive.name
        if name in KERNELS:
            kernel = SampledKernel(eqn, self.computed(inputs), self.work)
            return [KernelOutput(kernel, number) for number in range(len(eqn.outvars))]
        if name == "empty":
            unwritten = unwritten_array((1,), array_struct(eqn.outvars[0]).dtype)
            return [Repeated(unwritten, array_struct(eqn.outvars[0]).shape)]
        if name in _RESHAPES and not (name == "reshape" and eqn.params["dimensions"]):
            return [Reshaped(inputs[0], array_struct(eqn.outvars[0]).shape)]
        if is_identity(eqn):
            return inputs[: len(eqn.outvars)]
        inside = {p for inner in inner_jaxprs(eqn) for p in primitives(inner)}
        kernels = not inside.isdisjoint(KERNELS)
        if (kernels or "empty" in inside) and (inner := called(eqn)) is not None:
            return self.evaluate(inner, inputs)
        if kernels and name == "cond":
            branches = eqn.params["branches"]
            (which,) = self.computed(inputs[:1])
            chosen = branches[min(max(int(whole(which)), 0), len(branches) - 1)]
            return self.evaluate(chosen, inputs[1:])
        if kernels or has_effects(eqn) or name == SHARD_MAP:
            kind = RunsAsAWhole if kernels else NotSampled
            raise kind(f"its kernel runs inside of a {name}" if kernels else f"a {name}")
        node = _Node(eqn, inputs)
        return [_Deferred(node, number, self) for number in range(len(eqn.outvars))]

    def computed(self, values: Sequence[Any]) -> list[Any]:
        """The values, those of operations computed in one program. Raises NotSampled."""
        wanted = [value for value in values if isinstance(root_of(value), _Deferred)]
        nodes = _open([root_of(value) for value in wanted])
        if nodes:
            self._run(nodes)
        return [_known(value) for value in values]

    def _run(self, nodes: list[_Node]) -> None:
        """Compute the results of operations, of which each comes after those that it needs."""
        self.work.spend(sum(_cost_of(node.eqn) for node in nodes))
        own = set(map(id, nodes))
        leaves: dict[int, Any] = {}
        for node in nodes:
            for value in node.inputs:
                root = root_of(value)
                if not (isinstance(root, _Deferred) and id(root.node) in own):
                    leaves.setdefault(id(value), self._leaf(value))

        def program(given: dict[int, jax.Array]) -> list[list[jax.Array]]:
            made: dict[int, list[jax.Array]] = {}

            def of(value: Any) -> Any:
                if id(value) in given:
                    return given[id(value)]
                root = root_of(value)
                return jnp.reshape(made[id(root.node)][root.number], value.shape)

            for node in nodes:
                made[id(node)] = list(bind(node.eqn, [of(value) for value in node.inputs]))
            return [made[id(node)] for node in nodes]

        results = jax.jit(program)(leaves)
        for node, made in zip(nodes, results, strict=True):
            node.results = [np.asarray(each) for each in made]
            self._demand_room(node.results)

    def _leaf(self, value: Any) -> Values:
        value, root = _known(value), root_of(value)
        if not isinstance(value, np.ndarray):
            self._demand_room([value])
        if isinstance(root, KernelOutput):
            return self._sampled(root).reshape(value.shape)
        return whole(value)

    def _demand_room(self, arrays: Sequence[Any]) -> None:
        """Raises NotSampled if arrays that are made as a whole get too large together."""
        self.bytes += sum(math.prod(each.shape) * each.dtype.itemsize for each in arrays)
        if self.bytes > MOST_BYTES:
            raise NotSampled("operations around the kernel take arrays that are too large")

    def _sampled(self, output: KernelOutput) -> Values:
        """An output of a kernel with the blocks of its targets; the rest is filled."""
        found = _filled(output.shape, output.dtype, self.other)
        known = 0
        for positions, values in blocks_of(output, self.seed, self.targets, every=True).blocks:
            found.reshape(-1)[positions.reshape(-1)] = values.reshape(-1)
            known += values.size
        self.filled |= known < found.size
        return found


def _filled(shape: tuple[int, ...], dtype: np.dtype, other: bool) -> Values:
    """The stand-in for unknown elements."""
    floats = jnp.issubdtype(dtype, jnp.floating)
    return np.full(shape, 3.25, dtype) if floats and other else unwritten_array(shape, dtype, other)


def _cost_of(eqn: core.JaxprEqn) -> float:
    """The work of an operation around the kernels: XLA runs those without products fast."""
    if eqn.primitive.name == "dot_general":
        return product_work(eqn)
    return sum(map(work_of, inner_jaxprs(eqn))) / ELEMENTWISE


def _known(value: Any) -> Any:
    """A value, as an array if it has been computed."""
    root = root_of(value)
    if isinstance(root, _Deferred) and root.node.results:
        return root.node.results[root.number].reshape(value.shape)
    return root.reshape(value.shape) if isinstance(root, np.ndarray) else value


def _open(wanted: Sequence[_Deferred]) -> list[_Node]:
    """The operations that aren't computed yet, each after those that it needs."""
    found: dict[int, _Node] = {}

    def visit(node: _Node) -> None:
        if node.results or id(node) in found:
            return
        for value in map(root_of, node.inputs):
            if isinstance(value, _Deferred):
                visit(value.node)
        found[id(node)] = node

    for value in wanted:
        visit(value.node)
    return list(found.values())


def block_sample(
    closed: core.ClosedJaxpr,
    inputs: Sequence[Values | Repeated],
    seed: int,
    targets: int = 0,
) -> BlockSample:
    """Some elements of each result of a launch: at least the blocks of `targets` that `seed` draws.

    Within `for_chip`, as when the trace was made. A sample has the reason if nothing is known.
    Raises RunsAsAWhole.
    """
    assume_multiples()
    try:
        with on_host():
            results = _results(without_refs(closed), inputs, seed, targets)
    except RunsAsAWhole:
        raise
    except NotSampled as why:
        return BlockSample((), str(why))
    except Exception as error:  # of jax: only its interpreter of kernels has some operations
        raise RunsAsAWhole(f"{type(error).__name__} while single steps ran") from error
    if not any(result.at.data for result in results):
        return BlockSample((), "its results depend on blocks that weren't computed")
    return BlockSample(tuple(results))


def _results(
    closed: core.ClosedJaxpr, inputs: Sequence[Values | Repeated], seed: int, targets: int
) -> list[ResultSample]:
    most = MOST_WORK_BESIDE if targets else MOST_WORK
    outside = _Outside(seed, targets, Work(most), other=False)
    values = outside.computed(outside.evaluate(closed, inputs))
    others: Sequence[Any] = values
    if outside.filled:
        again = _Outside(seed, targets, Work(most), other=True)
        others = again.computed(again.evaluate(closed, inputs))
    return [
        _direct(root, tuple(value.shape), seed, targets)
        if isinstance(root := root_of(value), KernelOutput)
        else _equal(value, other)
        for value, other in zip(values, others, strict=True)
    ]


def _direct(output: KernelOutput, shape: tuple[int, ...], seed: int, targets: int) -> ResultSample:
    """The sample of a result that is an output of a kernel, perhaps in another shape."""
    at, values = [np.zeros(0, np.int64)], [np.zeros(0, output.dtype)]
    found = blocks_of(output, seed, targets)
    every, start = _spread(math.prod(output.shape), seed, MOST_IN_BLOCKS)
    for positions, block in found.blocks:
        chosen = positions % every == start
        at.append(positions[chosen])
        values.append(block[chosen])
    sample = _sample(shape, np.concatenate(at), np.concatenate(values))
    unwritten = output.kernel.unwritten(output.number)
    kept = [p[p % every == start] for p in found.kept]
    return dataclasses.replace(
        sample,
        unwritten=unwritten,
        kept=from_numpy(np.concatenate([np.zeros(0, np.int64), *kept])),
        targets=found.targets,
        refused=found.refused,
    )


def _equal(value: Any, other: Any) -> ResultSample:
    """The elements of a computed result that don't depend on the fill."""
    if not (isinstance(value, np.ndarray) and isinstance(other, np.ndarray)):
        return _sample(value.shape, np.zeros(0, np.int64), np.zeros(0, value.dtype))
    one, two = value.reshape(-1), other.reshape(-1)
    at = np.arange(0, one.size, _spread(one.size, 0)[0])
    nan = (one[at] != one[at]) & (two[at] != two[at])
    known = at[(one[at] == two[at]) | nan]
    return _sample(value.shape, known, one[known])


def sample_of(result: Values, seed: int) -> ResultSample:
    """Some elements of a result that is known as a whole, evenly spread from a drawn start."""
    every, start = _spread(result.size, seed)
    at = np.arange(start, result.size, every)
    return _sample(result.shape, at, result.reshape(-1)[at])


def _spread(size: int, seed: int, most: int = MOST_ELEMENTS) -> tuple[int, int]:
    """The distance of about `most` elements, and the position of the first, drawn by the seed.

    The distance is odd, so not all of them are in one column.
    """
    every = max(-(-size // most), 1) | 1
    # One element is in all samples of results of this size, whatever their distances.
    common = int(np.random.default_rng(seed).integers(max(size, 1)))
    return every, common % every


def _sample(shape: Sequence[int], at: Values, values: Values) -> ResultSample:
    return ResultSample(tuple(shape), from_numpy(at), from_numpy(values))
