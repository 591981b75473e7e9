"""Makes the strict interpreter faster, with the same findings: parallel steps, programs, callbacks.

The interpreter is slow for these reasons:

- It compiles the same program once for each of two simulated cores.
- For every kernel with "parallel" grid dimensions it compiles a random number generator and a sort,
  to shuffle the steps; and jax compiles even small functions again for another seed. Together this
  is more than half of the time of a small kernel.
- It puts the arguments of every memory operation on a device, and fetches them from there at once:
  half of the time of an operation.
- For each kernel jax imports the interpreter of GPU kernels, a quarter of a second of CPU time, to
  see that it isn't needed; if the import fails, it tries again for the next kernel.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.experimental.pallas import tpu as pltpu
from jax.extend import core
from jax.typing import ArrayLike

from pallascope.kernels.jax_internals import GPU_INTERPRETER, TPU_INTERPRETER, UnsupportedJax
from pallascope.kernels.pallas_params import semantics_name

_Grid = tuple[int | jax.Array, ...]

#: Modules with callbacks that take arrays of the host.
OF_THE_INTERPRETER = (
    TPU_INTERPRETER,
    "pallascope.kernels.prng_emulation",
    "pallascope.kernels.dma_hooks",
    "pallascope.kernels.interpreter",
)


@contextlib.contextmanager
def faster_interpreter(seed: int) -> Iterator[int | None]:
    """Share one compiled program among the cores, and shuffle steps before compilation.

    Yields the seed to pass to the interpreter: None if steps are shuffled here. If jax keeps the
    replaced functions elsewhere, the interpreter isn't faster.
    """
    try:
        from pallascope.kernels.jax_internals import callback, thread_map, tpu_interpreter
    except UnsupportedJax:
        yield seed
        return

    def order(grid: _Grid, params: pltpu.CompilerParams, _: int | None) -> tuple[Order, ...]:
        return shuffled(grid, params, seed)

    usual: Any = getattr(callback, "io_callback_impl", None)
    called = functools.partial(_called, usual, logging.getLogger(callback.__name__))
    with (
        _not_imported(GPU_INTERPRETER),
        _replaced(callback, "io_callback_impl", called),
        _replaced(thread_map, "_run_jaxpr", _Runner()),
        _replaced(tpu_interpreter, "_get_randomized_grid_coordinates", order) as shuffles,
    ):
        yield None if shuffles else seed


@contextlib.contextmanager
def _replaced(module: ModuleType, name: str, by: object) -> Iterator[bool]:
    """Replace a function in this context; yields whether there is such a function."""
    original = getattr(module, name, None)
    if original is None:
        yield False
        return
    setattr(module, name, by)
    try:
        yield True
    finally:
        setattr(module, name, original)


@contextlib.contextmanager
def _not_imported(module: str) -> Iterator[None]:
    """Make the import of a module fail at once, unless it has been imported before."""
    if module in sys.modules:
        yield
        return
    blocked: Any = None  # makes an import fail
    sys.modules[module] = blocked
    try:
        yield
    finally:
        sys.modules.pop(module, None)


def _called(
    usual: Callable[..., Any], log: logging.Logger, *args: Any, callback: Any, **params: Any
) -> Any:
    """The result of a host callback; the interpreter's own callbacks get numpy arrays.

    These are copies, because XLA reuses its memory. Exceptions are logged, as jax does.
    """
    function = callback.callback_func
    while isinstance(function, functools.partial):
        function = function.func
    if not str(getattr(function, "__module__", "")).startswith(OF_THE_INTERPRETER):
        return usual(*args, callback=callback, **params)
    try:
        return jax.tree.map(np.asarray, callback(*map(np.array, args)))
    except BaseException:
        log.exception("a callback of the interpreter failed")
        raise


class EverySecond:
    """An order of a number of steps that is known only when the kernel runs.

    Backwards, first every second step, then the others: steps that follow each other usually are
    on two cores.
    """

    def __init__(self, size: int | jax.Array) -> None:
        self.size = size

    def __getitem__(self, index: Any) -> Any:
        half = (self.size + 1) // 2
        step = 2 * index - jnp.where(index < half, 0, 2 * half - 1)
        return self.size - 1 - step


Order = jax.Array | EverySecond


def shuffled(grid: _Grid, params: pltpu.CompilerParams, seed: int) -> tuple[Order, ...]:
    """An order of the steps along each "parallel" dimension, none along the others.

    int32[size] or int32[0], or EverySecond for a size that is known only when the kernel runs;
    never the order in which a loop would take more than one step. Raises ValueError unless each
    dimension has one semantics.
    """
    semantics = params.dimension_semantics or ("arbitrary",) * len(grid)
    if len(semantics) != len(grid):
        wrong = f"{len(semantics)} for a grid of rank {len(grid)}"
        raise ValueError(f"number of dimension_semantics: {wrong}")
    deck = np.random.default_rng(seed)
    return tuple(
        _other_order(deck, size) if semantics_name(kind) == "parallel" else jnp.array((), jnp.int32)
        for size, kind in zip(grid, semantics, strict=True)
    )


def _other_order(deck: np.random.Generator, size: int | jax.Array) -> Order:
    if isinstance(size, Tracer):
        return EverySecond(size)
    steps = int(size)
    order = deck.permutation(steps)
    while steps > 1 and np.array_equal(order, np.arange(steps)):
        order = deck.permutation(steps)
    return jnp.array(order, jnp.int32)


class _Runner:
    """Runs a core's program, the same object for as many cores as call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By the jaxpr's id, which is unique as long as the jaxpr is kept.
        self._compiled: dict[int, tuple[core.Jaxpr, jax.stages.Compiled]] = {}

    def __call__(self, jaxpr: core.Jaxpr, consts: Sequence[ArrayLike], *args: ArrayLike) -> None:
        with self._lock:
            if id(jaxpr) not in self._compiled:

                def program(consts: Sequence[ArrayLike], *args: ArrayLike) -> None:
                    core.jaxpr_as_fun(core.ClosedJaxpr(jaxpr, consts))(*args)

                compiled = jax.jit(program).lower(consts, *args).compile()
                self._compiled[id(jaxpr)] = (jaxpr, compiled)
        self._compiled[id(jaxpr)][1](consts, *args)
