"""Two things that the strict interpreter does slowly, done otherwise; what it finds stays the same.

For each of two simulated cores it compiles the same program anew, and into every kernel with
"parallel" grid dimensions it compiles a random number generator and a sort, to shuffle their steps.
And whatever jax has compiled under one seed it compiles again under another, small as it may be.
Together these take more than half of the time of a small kernel.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core


@contextlib.contextmanager
def quicker(seed: int) -> Iterator[int | None]:
    """Have the cores share one compiled program, and shuffle steps before anything is compiled.

    Yields the seed that the interpreter is still to be given: None where steps are shuffled here.
    Where jax keeps the replaced functions elsewhere, nothing is gained and nothing lost.
    """
    try:
        from jax._src.pallas.mosaic.interpret import interpret_pallas_call, thread_map
    except ImportError:
        yield seed
        return

    def order(grid: tuple[Any, ...], params: Any, _: int | None) -> tuple[jax.Array, ...]:
        return shuffled(grid, params, seed)

    with (
        _replaced(thread_map, "_run_jaxpr", _Runner()),
        _replaced(interpret_pallas_call, "_get_randomized_grid_coordinates", order) as shuffles,
    ):
        yield None if shuffles else seed


@contextlib.contextmanager
def _replaced(module: ModuleType, name: str, by: Any) -> Iterator[bool]:
    """Whether there is such a function, which is replaced for as long as the block runs."""
    original = getattr(module, name, None)
    if original is None:
        yield False
        return
    setattr(module, name, by)
    try:
        yield True
    finally:
        setattr(module, name, original)


def shuffled(grid: tuple[Any, ...], params: Any, seed: int) -> tuple[jax.Array, ...]:
    """An order of the steps along each "parallel" dimension, none along the others.

    int32[size] or int32[0]; never the order in which a loop would take more than one step.
    """
    semantics = params.dimension_semantics or ("arbitrary",) * len(grid)
    deck = np.random.default_rng(seed)
    orders = (
        _other_order(deck, core.concrete_or_error(None, size)) if _is_parallel(way) else ()
        for size, way in zip(grid, semantics, strict=True)
    )
    return tuple(jnp.array(order, jnp.int32) for order in orders)


def _is_parallel(semantics: Any) -> bool:
    return getattr(semantics, "value", semantics) == "parallel"


def _other_order(deck: np.random.Generator, size: int) -> np.ndarray[Any, Any]:
    usual = np.arange(size)
    order = deck.permutation(size)
    while size > 1 and np.array_equal(order, usual):
        order = deck.permutation(size)
    return order


class _Runner:
    """Runs a core's program, for as many cores as call it with the same one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._compiled: dict[int, tuple[Any, Any]] = {}  # the jaxpr is kept, so that its id is

    def __call__(self, jaxpr: Any, consts: Any, *args: Any) -> None:
        with self._lock:
            if id(jaxpr) not in self._compiled:

                def program(consts: Any, *args: Any) -> None:
                    core.jaxpr_as_fun(core.ClosedJaxpr(jaxpr, consts))(*args)

                compiled = jax.jit(program).lower(consts, *args).compile()
                self._compiled[id(jaxpr)] = (jaxpr, compiled)
        self._compiled[id(jaxpr)][1](consts, *args)
