"""On which lines a kernel waits for its semaphores, told by its trace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from jax.extend import core

from grader.kernels.jaxprs import inner_jaxprs
from grader.kernels.ref_names import names_of
from grader.kernels.source_lines import line_of

_WAITS = "semaphore_wait"
_BARRIERS = "get_barrier_semaphore"


class WaitLines:
    """The lines of all waits of a kernel, by what it calls its semaphores."""

    def __init__(self) -> None:
        self._found = defaultdict[str, list[Any]](list)

    @classmethod
    def in_kernel(cls, kernel: core.Jaxpr, barrier: str) -> WaitLines:
        """`barrier` is what barrier semaphores are called."""
        found = cls()
        names = dict(zip(map(id, kernel.invars), names_of(kernel), strict=True))
        found._read(kernel, names, barrier)
        return found

    def of(self, semaphore: str, file: str) -> int:
        """The only line of `file` that waits for a semaphore, or one of an array; 0 if unknown."""
        waits = self._found.get(semaphore) or self._found.get(semaphore.partition("[")[0], [])
        lines = {line_of(info, file) for info in waits} - {0}
        return lines.pop() if len(lines) == 1 else 0

    def _read(self, jaxpr: core.Jaxpr, names: Mapping[int, str], barrier: str) -> None:
        known = dict(names)
        for eqn in jaxpr.eqns:
            if eqn.primitive.name == _BARRIERS:
                known[id(eqn.outvars[0])] = barrier
            elif eqn.primitive.name == _WAITS:
                name = known.get(id(eqn.invars[0]), "")
                self._found[name].append(eqn.source_info)
            for inner in inner_jaxprs(eqn):
                self._read(inner, _passed(eqn.invars, inner.invars, known), barrier)


def _passed(given: Sequence[Any], taken: Sequence[Any], known: Mapping[int, str]) -> dict[int, str]:
    """The names within; what a loop or a choice passes on comes last, in the same order."""
    pairs = zip(reversed(given), reversed(taken), strict=False)
    return {id(inner): known[id(outer)] for outer, inner in pairs if id(outer) in known}
