"""Programs that run once, on the host: what a few values are before any kernel runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import jax
import numpy as np
from jax.sharding import AbstractMesh
from jax.typing import ArrayLike

from grader.kernels.on_all_devices import Run

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
