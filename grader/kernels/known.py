"""Which values are known before any kernel runs: sizes of dynamic grids, scalar prefetch.

They are computed on the host from the arguments that were given, and with them only the part of the
trace that they depend on: four group sizes are no reason to multiply large matrices on a CPU.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.extend import core
from jax.sharding import AbstractMesh

from grader.kernels.around import KERNELS
from grader.kernels.jaxprs import inner_jaxprs, memory_space, primitives

Value = np.ndarray[Any, Any]

#: Primitives that do nothing but call the jaxpr which this parameter holds, with the same inputs.
_CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "remat2": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
}
#: These programs run once, on a few numbers: compiling them is what takes time. Halves it.
_QUICKLY = {"xla_backend_optimization_level": 0}
_LEAVES_THE_DEVICE = ("pure_callback", "io_callback", "debug_callback")


@contextlib.contextmanager
def on_host() -> Iterator[None]:
    """Compute on the CPU, also within `for_chip`, whose TPU is not there."""
    cpu = jax.local_devices(backend="cpu")[0]
    with jax.default_device(cpu), jax.sharding.use_abstract_mesh(AbstractMesh((), ())):
        yield


def computed(function: Callable[..., Any], *args: Any) -> Any:
    """What `function` makes of host arrays, as host arrays, compiled as a whole; None on failure.

    An expression that only a TPU can evaluate, or none without its mesh of devices, is no fault of
    the launch: what it stands for is unknown, whatever it is that jax raises.
    """
    try:
        with on_host():
            program = jax.jit(function, compiler_options=_QUICKLY)
            return jax.tree.map(np.asarray, program(*args))
    except Exception:
        return None


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """One equation of the trace whose inputs all can be had. `number` is its turn."""

    number: int
    equation: Any
    inputs: tuple[_Source, ...]


@dataclass(frozen=True, slots=True)
class _Result:
    """One of the values that an equation computes."""

    step: _Step
    position: int


@dataclass(frozen=True, slots=True, eq=False)
class _Given:
    """A value that is there from the start: an argument or a constant."""

    value: Any


_Source = _Result | _Given | None  # None: not known before the kernels run


def known_values(closed: Any, args: Sequence[Any]) -> list[list[Value | None]]:
    """For each pallas_call, its grid bounds, scalar prefetch, and inputs in SMEM, where known.

    `closed` is the trace of a launch, `args` what its inputs are: arrays, or ShapeDtypeStructs
    where the contents are not known. In program order, as `around.Reader` gathers the calls.
    """
    reader = _Reader()
    given = [None if isinstance(a, jax.ShapeDtypeStruct) else _Given(a) for a in args]
    reader.read(closed, given)
    wanted = [source for sources in reader.calls for source in sources]
    values = iter(_evaluate(wanted))
    return [[next(values) for _ in sources] for sources in reader.calls]


class _Reader:
    """Walks a trace outside of kernels; notes where the values come from that a kernel needs."""

    def __init__(self) -> None:
        self.calls: list[list[_Source]] = []
        self._steps = 0

    def read(self, jaxpr: Any, inputs: Sequence[_Source]) -> list[_Source]:
        """Where the results of a jaxpr, closed or not, come from."""
        consts = [_Given(const) for const in getattr(jaxpr, "consts", ())]
        jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
        names: dict[Any, _Source] = dict(zip(jaxpr.constvars, consts, strict=False))
        if len(inputs) == len(jaxpr.invars):
            names.update(zip(jaxpr.invars, inputs, strict=True))

        def source(var: Any) -> _Source:
            return _Given(var.val) if isinstance(var, core.Literal) else names.get(var)

        for eqn in jaxpr.eqns:
            results = self._equation(eqn, tuple(source(var) for var in eqn.invars))
            names.update(zip(eqn.outvars, results, strict=False))
        return [source(var) for var in jaxpr.outvars]

    def _equation(self, eqn: Any, inputs: tuple[_Source, ...]) -> Sequence[_Source]:
        name, unknown = eqn.primitive.name, [None] * len(eqn.outvars)
        if name in KERNELS:
            if name == "pallas_call":
                self.calls.append(_read_by_scalars(eqn.params["grid_mapping"], inputs))
            return unknown
        inner = inner_jaxprs(eqn)
        if len(inner) == 1 and _CALLS.get(name) in eqn.params:
            return self.read(eqn.params[_CALLS[name]], inputs)
        seen = len(self.calls)
        for sub in inner:
            self.read(sub, _into(eqn, sub, inputs))
        if len(self.calls) > seen or None in inputs or eqn.effects or _leaves_the_device(eqn):
            return unknown
        self._steps += 1
        step = _Step(self._steps, eqn, inputs)
        return [_Result(step, position) for position in range(len(eqn.outvars))]


def _read_by_scalars(mapping: Any, inputs: Sequence[_Source]) -> list[_Source]:
    """Sizes of the grid, scalar prefetch, and in place of each input that isn't in SMEM, None."""
    needed = sum(not isinstance(n, int) for n in mapping.grid) + mapping.num_index_operands
    specs = mapping.block_mappings[: mapping.num_inputs]
    in_smem = [memory_space(spec.transformed_block_aval) == "smem" for spec in specs]
    tables = zip(inputs[needed:], in_smem, strict=False)
    return [*inputs[:needed], *(source if smem else None for source, smem in tables)]


def _into(eqn: Any, sub: Any, inputs: Sequence[_Source]) -> Sequence[_Source]:
    """What is known of the inputs of an inner jaxpr: a loop's carry differs from turn to turn."""
    if eqn.primitive.name == "cond":  # the first operand chooses the branch
        return inputs[1:]
    fixed = _constants(eqn.params) if eqn.primitive.name == "scan" else 0
    return [*inputs[:fixed], *([None] * (len(sub.invars) - fixed))]


def _constants(params: dict[str, Any]) -> int:
    """How many inputs of a scan are the same in every turn; they come first."""
    if "num_consts" in params:  # before jax 0.12
        return params["num_consts"]
    try:
        constants, _, _ = params["ft_in"].unpack()
        return len(list(constants))
    except (AttributeError, KeyError, TypeError, ValueError):
        return 0  # moved again; then what happens in loops is not known


def _leaves_the_device(eqn: Any) -> bool:
    inner = (name for sub in inner_jaxprs(eqn) for name in primitives(sub))
    return any(name in _LEAVES_THE_DEVICE for name in (eqn.primitive.name, *inner))


def _evaluate(sources: Sequence[_Source]) -> list[Value | None]:
    """The values behind sources: of all together, or one by one where some can't be had."""
    some = [source for source in sources if source is not None]
    if not some:
        return [None] * len(sources)
    values = _together(some)
    if values is None:
        singly = [_together([source]) for source in some]
        values = [value[0] if value else None for value in singly]
    found = iter(values)
    return [None if source is None else next(found) for source in sources]


def _together(sources: Sequence[_Result | _Given]) -> list[Value] | None:
    steps, given = _behind(sources)

    def program(*inputs: Any) -> list[Any]:
        arrays = dict(zip(map(id, given), inputs, strict=True))
        done: dict[int, Any] = {}

        def value(source: Any) -> Any:
            if isinstance(source, _Given):
                return arrays[id(source)]
            return done[source.step.number][source.position]

        for step in steps:
            results = step.equation.primitive.bind(*map(value, step.inputs), **step.equation.params)
            several = step.equation.primitive.multiple_results
            done[step.number] = results if several else [results]
        return [value(source) for source in sources]

    return computed(program, *(source.value for source in given))


def _behind(sources: Sequence[_Source]) -> tuple[list[_Step], list[_Given]]:
    """The steps and given values that sources depend on, each in program order."""
    steps: dict[int, _Step] = {}
    given: dict[int, _Given] = {}
    open_ends = list(sources)
    while open_ends:
        match open_ends.pop():
            case _Result(step) if step.number not in steps:
                steps[step.number] = step
                open_ends.extend(step.inputs)
            case _Given() as value:
                given[id(value)] = value
    return [steps[number] for number in sorted(steps)], list(given.values())
