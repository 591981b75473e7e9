"""A launch function, traced: what it holds, and how to run it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import jax
import numpy as np
from jax.extend import core
from jax.typing import ArrayLike

from grader.kernels.block_positions import walk_of
from grader.kernels.calls import array_type, kernel_call
from grader.kernels.ingredients import homemade, large_constants
from grader.kernels.known_values import known_values
from grader.kernels.outside_kernels import OutsideReader
from grader.kernels.source_lines import line_within
from grader.model import Trace, Walk


def trace_of(
    closed: core.ClosedJaxpr, file: str = "", spec: str = ""
) -> tuple[Trace, list[core.JaxprEqn]]:
    """A launch's trace as data, and the equations of its kernels in program order.

    `file` is the learner's, as it is called in the trace's source info: lines are given in it, and
    kernels that stand elsewhere are told from those that stand there. `spec` is the name of its
    function that a launch may not call. Both are "" where nobody asks.
    """
    reader = OutsideReader(file)
    from_kernel = reader.read(closed.jaxpr, [False] * len(closed.jaxpr.invars))
    trace = Trace(
        calls=tuple(kernel_call(eqn, file) for eqn in reader.pallas_calls),
        outside=tuple(reader.outside),
        results=tuple(map(array_type, closed.out_avals)),
        from_kernel=tuple(from_kernel),
        homemade=tuple(homemade(closed.jaxpr, file)),
        constants=tuple(large_constants(closed, file)),
        from_spec=line_within(closed.jaxpr, file, spec) if spec else 0,
    )
    return trace, reader.pallas_calls


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

    def trace(self, file: str = "", spec: str = "") -> Trace:
        """Kernels, operations around them, results: `trace_of` this launch."""
        trace, self._pallas_calls = trace_of(self._traced.jaxpr, file, spec)
        return trace

    def run(self, args: Sequence[ArrayLike]) -> list[np.ndarray]:
        """The results, flat, on the host."""
        outputs = self._traced.lower().compile()(*args)
        return [np.asarray(leaf) for leaf in jax.tree.leaves(outputs)]

    def walk(self) -> Walk | None:
        """Which output block each grid step of the last kernel writes; None where unknowable."""
        if not self._pallas_calls:
            return None
        return walk_of(self._pallas_calls[-1], known_values(self._traced.jaxpr, self._args)[-1])
