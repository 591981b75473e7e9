"""Tracing and running launch functions, in a chosen mode."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import jax
import numpy as np
from jax.experimental.pallas import tpu as pltpu

from grader.kernels.around import Reader
from grader.kernels.block_positions import walk_of
from grader.kernels.calls import array_type, kernel_call
from grader.kernels.jaxprs import UnsupportedJax
from grader.kernels.known import known_values
from grader.kernels.quicker import quicker
from grader.model import Mode, Trace, Walk

#: The interpreter runs a kernel's memory operations as host callbacks. What one of them raises
#: reaches the caller as text alone; the exception itself, with its lines, goes to this logger.
CALLBACK_LOGGER = "jax._src.callback"


@contextlib.contextmanager
def running(mode: Mode, seed: int, unwritten: Literal["nan", "zero"] = "nan") -> Iterator[None]:
    """Run every kernel traced in this context in `mode`; katas never say `interpret=`.

    Strict is the TPU interpreter at its least forgiving. `seed` shuffles the order in which the
    steps of "parallel" grid dimensions run; `unwritten` ("nan" or "zero") is what memory holds that
    nothing has written. Leaves no interpreter state behind, also after an
    exception.
    """
    if mode is Mode.COMPILED:
        yield
        return
    try:
        with quicker(seed) as remaining:
            strict = pltpu.InterpretParams(
                num_cores_or_threads=2,
                detect_races=True,
                uninitialized_memory=unwritten,
                out_of_bounds_reads="raise",
                dma_execution_mode="on_wait",
                random_seed=remaining,
            )
            # The context's value replaces `interpret=`, for which True asks for the plain one.
            params: Any = strict if mode is Mode.STRICT else True
            with pltpu.force_tpu_interpret_mode(params):
                yield
    except BaseException:
        _reset()
        raise


def _reset() -> None:
    """Forget the simulated memory, and the tokens that order the failed kernel's callbacks."""
    pltpu.reset_tpu_interpret_mode_state()
    try:
        from jax._src.dispatch import runtime_tokens

        runtime_tokens.clear()
    except (ImportError, AttributeError):
        raise UnsupportedJax("jax._src.dispatch.runtime_tokens") from None


class Launch:
    """A traced launch function: what it holds, and how to run it."""

    def __init__(self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]):
        self._traced = jax.jit(lambda *arrays: function(*arrays, **kwargs)).trace(*args)
        self._args = args
        self._equations: list[Any] = []

    def trace(self) -> Trace:
        """Kernels, operations around them, results."""
        reader = Reader()
        closed = self._traced.jaxpr
        tainted = reader.read(closed.jaxpr, [False] * len(closed.jaxpr.invars))
        self._equations = reader.equations
        return Trace(
            calls=tuple(kernel_call(eqn) for eqn in reader.equations),
            outside=tuple(reader.outside),
            results=tuple(array_type(aval) for aval in closed.out_avals),
            from_kernel=tuple(tainted),
        )

    def run(self, args: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        """The results, flat, on the host."""
        outputs = self._traced.lower().compile()(*args)
        return [np.asarray(leaf) for leaf in jax.tree.leaves(outputs)]

    def walk(self) -> Walk | None:
        """Which output block each grid step of the last kernel writes; None where unknowable."""
        if not self._equations:
            return None
        return walk_of(self._equations[-1], known_values(self._traced.jaxpr, self._args)[-1])
