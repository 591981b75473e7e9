"""Tracing and running launch functions, in a chosen mode."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

import jax
import numpy as np
from jax.experimental.pallas import tpu as pltpu
from jax.extend import core
from jax.typing import ArrayLike

from grader.kernels.block_positions import walk_of
from grader.kernels.calls import array_type, kernel_call
from grader.kernels.faster_interpreter import faster_interpreter
from grader.kernels.jaxprs import UnsupportedJax
from grader.kernels.known_values import known_values
from grader.kernels.outside_kernels import OutsideReader
from grader.model import Mode, Trace, Walk

#: The interpreter runs a kernel's memory operations as host callbacks. What one of them raises
#: reaches the caller as text alone; the exception itself, with its lines, goes to this logger.
CALLBACK_LOGGER = "jax._src.callback"


@contextlib.contextmanager
def running(mode: Mode, seed: int, unwritten: Literal["nan", "zero"] = "nan") -> Iterator[None]:
    """Run every kernel traced in this context in `mode`; katas never say `interpret=`.

    Strict is the TPU interpreter at its least forgiving. `seed` shuffles the order in which the
    steps of "parallel" grid dimensions run; `unwritten` ("nan" or "zero") is what memory holds that
    nothing has written. Leaves no interpreter state behind, also after an exception.
    """
    if mode is Mode.COMPILED:
        yield
        return
    try:
        with faster_interpreter(seed) as remaining:
            strict = pltpu.InterpretParams(
                num_cores_or_threads=2,
                detect_races=True,
                uninitialized_memory=unwritten,
                out_of_bounds_reads="raise",
                dma_execution_mode="on_wait",
                random_seed=remaining,
            )
            # The context's value replaces `interpret=`, for which True asks for the plain
            # interpreter; its annotation names only the strict one's parameters.
            replacing = strict if mode is Mode.STRICT else True
            with pltpu.force_tpu_interpret_mode(replacing):  # type: ignore[arg-type]
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


class TracedLaunch:
    """A launch function, traced with its arguments: what it holds, and how to run it."""

    def __init__(
        self,
        function: Callable[..., object],
        args: Sequence[ArrayLike],
        kwargs: Mapping[str, object],
    ) -> None:
        self._traced = jax.jit(lambda *arrays: function(*arrays, **kwargs)).trace(*args)
        self._args = args
        self._pallas_calls: list[core.JaxprEqn] = []

    def trace(self) -> Trace:
        """Kernels, operations around them, results."""
        reader = OutsideReader()
        closed = self._traced.jaxpr
        from_kernel = reader.read(closed.jaxpr, [False] * len(closed.jaxpr.invars))
        self._pallas_calls = reader.pallas_calls
        return Trace(
            calls=tuple(map(kernel_call, reader.pallas_calls)),
            outside=tuple(reader.outside),
            results=tuple(map(array_type, closed.out_avals)),
            from_kernel=tuple(from_kernel),
        )

    def run(self, args: Sequence[ArrayLike]) -> list[np.ndarray]:
        """The results, flat, on the host."""
        outputs = self._traced.lower().compile()(*args)
        return [np.asarray(leaf) for leaf in jax.tree.leaves(outputs)]

    def walk(self) -> Walk | None:
        """Which output block each grid step of the last kernel writes; None where unknowable."""
        if not self._pallas_calls:
            return None
        return walk_of(self._pallas_calls[-1], known_values(self._traced.jaxpr, self._args)[-1])
