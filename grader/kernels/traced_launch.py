"""A launch function, traced: what it holds, and how to run it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import jax
import numpy as np
from jax.extend import core
from jax.typing import ArrayLike

from grader.kernels.block_positions import walk_of
from grader.kernels.calls import array_type, kernel_call
from grader.kernels.known_values import known_values
from grader.kernels.outside_kernels import OutsideReader
from grader.kernels.without_refs import without_refs
from grader.model import Trace, Walk


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
        self._kernels: list[core.JaxprEqn] = []

    def trace(self) -> Trace:
        """Kernels, operations around them, results."""
        reader = OutsideReader()
        closed = without_refs(self._traced.jaxpr)
        from_kernel = reader.read(closed.jaxpr, [False] * len(closed.jaxpr.invars))
        self._kernels = reader.kernels
        return Trace(
            calls=tuple(map(kernel_call, reader.kernels)),
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
        if not self._kernels:
            return None
        closed = without_refs(self._traced.jaxpr)
        return walk_of(self._kernels[-1], known_values(closed, self._args)[-1])
