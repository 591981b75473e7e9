"""Constant folding: values known before a kernel runs, also in shard_map.

Values within a `shard_map`, of all devices at once: what is sent between them is known, too.
Each is one array, the mesh's axes before its own. An operation is vmapped over these axes, under
their names, so that collectives mean what they mean on devices.

Programs that run once, on the host: what a few values are before any kernel runs.

Which values are known before any kernel runs: sizes of dynamic grids, scalar prefetch.
They are computed on the host from the arguments that were given, and with them only the part of the
trace that they depend on: four group sizes are no reason to multiply large matrices on a CPU.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jax.sharding import AbstractMesh
from jax.typing import ArrayLike

from pallascope.kernels.evaluator import Env, Evaluator, bind
from pallascope.kernels.jaxprs import (
    called,
    inner_jaxprs,
    is_scalar,
    loop_constants,
    memory_space,
    primitives,
)
from pallascope.kernels.manual_dma import copied_into_smem
from pallascope.kernels.pallas_params import (
    KERNELS,
    body,
    grid_mapping,
    is_pallas_call,
)
from pallascope.kernels.sharding import SHARD_MAP, axes_of
from pallascope.model import Axes

Run = Callable[..., Sequence[jax.Array]]


def mesh_of(eqn: core.JaxprEqn) -> Axes:
    """The axes that a `shard_map` makes, in the mesh's order."""
    named = axes_of(eqn)
    return tuple((name, size) for name, size in eqn.params["mesh"].shape.items() if name in named)


def parts_of(spec: Any, mesh: Axes) -> Run:
    """Cuts a whole array as a spec says."""

    def cut(array: jax.Array) -> list[jax.Array]:
        parts = []
        for place in itertools.product(*(range(size) for _, size in mesh)):
            at = dict(zip((name for name, _ in mesh), place, strict=True))
            part = array
            for dimension, entry in enumerate(spec):
                names = entry if isinstance(entry, tuple) else (entry,) * (entry is not None)
                for name in names:
                    size = part.shape[dimension] // dict(mesh)[name]
                    first = at[name] * size
                    part = jax.lax.slice_in_dim(part, first, first + size, axis=dimension)
            parts.append(part)
        return [jnp.stack(parts).reshape(*(size for _, size in mesh), *parts[0].shape)]

    return cut


def on_all(run: Run, mesh: Axes, stacked: Sequence[bool]) -> Run:
    """An operation on every device; inputs that are not `stacked` are the same for all."""

    def one(_: jax.Array, *inputs: jax.Array) -> Sequence[jax.Array]:
        return run(*inputs)

    mapped = one
    ways = tuple(0 if each else None for each in stacked)
    for name, _ in reversed(mesh):
        mapped = jax.vmap(mapped, in_axes=(0, *ways), axis_name=name)
    numbers = jnp.zeros([size for _, size in mesh])
    return lambda *inputs: mapped(numbers, *inputs)


def of_the_busiest(mesh: Axes, sizes: int) -> Run:
    """Of an array of all devices, the part of the one whose grid is the largest.

    The array comes first, and then so many sizes of the grid.
    """

    def picked(array: jax.Array, *grid: jax.Array) -> list[jax.Array]:
        devices = [size for _, size in mesh]
        assert len(grid) == sizes
        steps = jnp.ones(devices, jnp.int32)
        for size in grid:
            steps = steps * size.reshape(devices)
        each = array.reshape(-1, *array.shape[len(devices) :])
        return [each[jnp.argmax(steps.reshape(-1))]]

    return picked


#: These programs run once, on a few numbers: compiling them is what takes time. Halves it.
_QUICKLY = {"xla_backend_optimization_level": 0}


@contextlib.contextmanager
def on_host() -> Iterator[None]:
    """Compute on the CPU, also within `for_chip`, whose TPU is not there."""
    cpu = jax.local_devices(backend="cpu")[0]
    with jax.default_device(cpu), jax.sharding.use_abstract_mesh(AbstractMesh((), ())):
        yield


def computed(
    function: Callable[..., Sequence[jax.Array]], *args: ArrayLike
) -> list[np.ndarray] | None:
    """What `function` makes of host arrays, as host arrays, compiled as a whole; None on failure.

    An expression that only a TPU can evaluate, or none without its mesh of devices, is no fault of
    the launch: its value is unknown, whatever exception jax raises.
    """
    try:
        with on_host():
            program = jax.jit(function, compiler_options=_QUICKLY)
            return [np.asarray(result) for result in program(*args)]
    except Exception:
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """What can be run as its inputs can all be had, an equation as a rule. `number` is its turn."""

    number: int
    run: Run
    inputs: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """One of the values that an equation computes."""

    step: Step
    position: int


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """A value that is there from the start: an argument or a constant."""

    value: ArrayLike


Source = Result | Given | None  # None: not known before the kernels run


def evaluate(sources: Sequence[Source]) -> list[np.ndarray | None]:
    """The values behind sources: of all together, or one by one where some can't be had."""
    knowable = [source for source in sources if source is not None]
    if not knowable:
        return [None] * len(sources)
    values: Sequence[np.ndarray | None] | None = _together(knowable)
    if values is None:
        singly = [_together([source]) for source in knowable]
        values = [value[0] if value else None for value in singly]
    remaining = iter(values)
    return [None if source is None else next(remaining) for source in sources]


def _together(sources: Sequence[Result | Given]) -> list[np.ndarray] | None:
    steps, given = _behind(sources)

    def program(*inputs: jax.Array) -> list[jax.Array]:
        arrays = dict(zip(map(id, given), inputs, strict=True))
        done: dict[int, Sequence[jax.Array]] = {}

        def value(source: Source) -> jax.Array:
            match source:
                case Given():
                    return arrays[id(source)]
                case Result(step, position):
                    return done[step.number][position]
            raise AssertionError("a step's inputs are known")

        for step in steps:
            done[step.number] = step.run(*map(value, step.inputs))
        return [value(source) for source in sources]

    return computed(program, *(source.value for source in given))


def _behind(sources: Sequence[Source]) -> tuple[list[Step], list[Given]]:
    """The steps and given values that sources depend on, each in program order."""
    steps: dict[int, Step] = {}
    given: dict[int, Given] = {}
    open_ends = list(sources)
    while open_ends:
        match open_ends.pop():
            case Result(step) if step.number not in steps:
                steps[step.number] = step
                open_ends.extend(step.inputs)
            case Given() as value:
                given[id(value)] = value
    return [steps[number] for number in sorted(steps)], list(given.values())


_LEAVES_THE_DEVICE = ("pure_callback", "io_callback", "debug_callback")


def known_values(
    closed: core.ClosedJaxpr, args: Sequence[ArrayLike | jax.ShapeDtypeStruct]
) -> list[list[np.ndarray | None]]:
    """For each kernel, its grid bounds, scalar prefetch, and inputs in SMEM or copied into it.

    None for those that are not known.

    `closed` is the trace of a launch, `args` what its inputs are: arrays, or ShapeDtypeStructs
    where the contents are not known. In program order, as `OutsideReader` gathers the kernels.
    """
    reader = _SourceReader()
    given = [None if isinstance(arg, jax.ShapeDtypeStruct) else Given(arg) for arg in args]
    reader.evaluate(closed, given)
    wanted = [source for sources in reader.calls for source in sources]
    values = iter(evaluate(wanted))
    return [[next(values) for _ in sources] for sources in reader.calls]


class _SourceReader(Evaluator):
    """Reads a trace outside of kernels; notes where the values come from that a kernel needs."""

    def __init__(self) -> None:
        self.calls: list[list[Source]] = []
        self._steps = 0
        self._mesh: Axes = ()  # of the shard_map that is being read

    def constant(self, value: ArrayLike) -> Source:
        return Given(value)

    def operation(self, eqn: core.JaxprEqn, inputs: list[Source], env: Env) -> Sequence[Source]:
        name, unknown = eqn.primitive.name, [None] * len(eqn.outvars)
        if name in KERNELS:
            read = _read_by_scalars(eqn, inputs)
            self.calls.append(self._on_one_device(eqn, read) if self._mesh else read)
            return unknown
        if name == SHARD_MAP and not self._mesh:
            self._within_devices(eqn, inputs)
            return unknown
        if (jaxpr := called(eqn)) is not None:
            return self.evaluate(jaxpr, inputs)
        calls_before = len(self.calls)
        for jaxpr in inner_jaxprs(eqn):
            self.evaluate(jaxpr, _into(eqn, jaxpr, inputs))
        holds_kernel = len(self.calls) > calls_before
        if holds_kernel or None in inputs or _acts(eqn) or _leaves_the_device(eqn):
            return unknown
        step = self._step(functools.partial(_bound, eqn), inputs)
        return [Result(step, position) for position in range(len(eqn.outvars))]

    def _step(self, run: Run, inputs: Sequence[Source], alone: bool = False) -> Step:
        """Within a shard_map, what is done on all devices, unless it is `alone`."""
        self._steps += 1
        if self._mesh and not alone:
            run = on_all(run, self._mesh, [isinstance(one, Result) for one in inputs])
        return Step(self._steps, run, tuple(inputs))

    def _within_devices(self, eqn: core.JaxprEqn, inputs: Sequence[Source]) -> None:
        mesh = mesh_of(eqn)
        parts = [
            None if whole is None else Result(self._step(parts_of(spec, mesh), (whole,)), 0)
            for whole, spec in zip(inputs, eqn.params["in_specs"], strict=True)
        ]
        self._mesh = mesh
        for jaxpr in inner_jaxprs(eqn):
            self.evaluate(jaxpr, parts)
        self._mesh = ()

    def _on_one_device(self, kernel: core.JaxprEqn, read: Sequence[Source]) -> list[Source]:
        """What the kernel reads on the device on which it has the most to do."""
        dynamic = _dynamic_sizes(kernel)
        grid = [one for one in read[:dynamic] if isinstance(one, Result)]
        pick = of_the_busiest(self._mesh, len(grid))
        return [
            Result(self._step(pick, (one, *grid), alone=True), 0)
            if isinstance(one, Result)
            else one
            for one in read
        ]


def _read_by_scalars(kernel: core.JaxprEqn, inputs: Sequence[Source]) -> list[Source]:
    """Sizes of the grid, scalar prefetch, and inputs in SMEM or that the kernel copies into it; in
    place of each other input, None."""
    copied = copied_into_smem(body(kernel))
    if not is_pallas_call(kernel):
        refs = body(kernel).invars[: len(inputs)]
        in_smem = [
            memory_space(ref.aval) == "smem" or is_scalar(ref) or position in copied
            for position, ref in enumerate(refs)
        ]
        return [source if smem else None for source, smem in zip(inputs, in_smem, strict=True)]
    mapping = grid_mapping(kernel)
    needed = _dynamic_sizes(kernel) + mapping.num_index_operands
    specs = mapping.block_mappings[: mapping.num_inputs]
    in_smem = [
        memory_space(spec.transformed_block_aval) == "smem" or position in copied
        for position, spec in enumerate(specs, mapping.num_index_operands)
    ]
    tables = zip(inputs[needed:], in_smem, strict=False)
    return [*inputs[:needed], *(source if smem else None for source, smem in tables)]


def _dynamic_sizes(kernel: core.JaxprEqn) -> int:
    if not is_pallas_call(kernel):
        return 0
    return sum(not isinstance(size, int) for size in grid_mapping(kernel).grid)


def _bound(eqn: core.JaxprEqn, *inputs: jax.Array) -> Sequence[jax.Array]:
    return bind(eqn, inputs)


def _acts(eqn: core.JaxprEqn) -> bool:
    """Whether an operation has effects; that of naming an axis of devices is none."""
    return any(type(effect).__name__ != "NamedAxisEffect" for effect in eqn.effects)


def _into(eqn: core.JaxprEqn, inner: core.Jaxpr, inputs: Sequence[Source]) -> Sequence[Source]:
    """What is known of the inputs of an inner jaxpr: a loop's carry differs from turn to turn."""
    if eqn.primitive.name == "cond":  # the first operand chooses the branch
        return inputs[1:]
    fixed = loop_constants(eqn) if eqn.primitive.name == "scan" else 0
    return [*inputs[:fixed], *([None] * (len(inner.invars) - fixed))]


def _leaves_the_device(eqn: core.JaxprEqn) -> bool:
    inner = (name for jaxpr in inner_jaxprs(eqn) for name in primitives(jaxpr))
    return any(name in _LEAVES_THE_DEVICE for name in (eqn.primitive.name, *inner))
