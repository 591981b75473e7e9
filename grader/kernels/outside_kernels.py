"""The operations around the kernels of a trace, and which values a kernel had a hand in."""

from __future__ import annotations

from collections.abc import Sequence

from jax.extend import core

from grader.kernels.bitcasts import is_bitcast
from grader.kernels.calls import operation
from grader.kernels.jaxprs import Atom, expanded, inner_jaxprs
from grader.kernels.pallas_params import KERNELS
from grader.kernels.source_lines import line_in
from grader.model import Operation

_WRAPPERS = (
    *("jit", "pjit", "closed_call", "core_call", "checkpoint", "remat2"),
    *("custom_jvp_call", "custom_vjp_call", "custom_vmap_call", "call_hi_primitive"),
)


class OutsideReader:
    """Walks a trace outside of kernels; gathers kernels and other operations in program order.

    Operations that move no byte are not among them.

    `from_kernel` says of each result whether a kernel had a hand in it. `file` is the learner's,
    for the lines of the operations.
    """

    def __init__(self, closed: core.ClosedJaxpr, file: str = "") -> None:
        self.kernels: list[core.JaxprEqn] = []
        self.outside: list[Operation] = []
        self._file = file
        self.from_kernel = self._read(closed.jaxpr, [False] * len(closed.jaxpr.invars))

    def _read(
        self, jaxpr: core.Jaxpr, tainted: Sequence[bool], line: int = 0, turns: int = 1
    ) -> list[bool]:
        """Which results depend on a kernel, given which inputs do.

        `line` is the learner's that called the jaxpr: jax traces its own functions once, with the
        lines of whoever called them first. It is run `turns` times.
        """
        from_kernel = {id(var): flag for var, flag in zip(jaxpr.invars, tainted, strict=True)}

        def depends(var: Atom) -> bool:
            return from_kernel.get(id(var), False)

        for eqn in jaxpr.eqns:
            results = self._equation(eqn, [depends(var) for var in eqn.invars], line, turns)
            from_kernel.update((id(var), f) for var, f in zip(eqn.outvars, results, strict=True))
        return [depends(var) for var in jaxpr.outvars]

    def _equation(
        self, eqn: core.JaxprEqn, tainted: list[bool], caller: int, turns: int
    ) -> list[bool]:
        name = eqn.primitive.name
        count = len(eqn.outvars)
        if name in KERNELS:
            self.kernels.append(eqn)
            return [True] * count
        inner = inner_jaxprs(eqn) or expanded(eqn)
        line = (line_in(eqn, self._file) if self._file else 0) or caller
        if not (is_bitcast(eqn) or (name in _WRAPPERS and inner)):
            self.outside.append(operation(eqn, line, turns))
        if name == "scan":
            turns *= eqn.params["length"]
        results = [False if inner else any(tainted)] * count
        for jaxpr in inner:
            # A cond's first operand chooses the branch; the rest line up with each branch's.
            aligned = tainted[len(tainted) - len(jaxpr.invars) :]
            if len(aligned) != len(jaxpr.invars):
                aligned = [any(tainted)] * len(jaxpr.invars)
            branch = self._read(jaxpr, aligned, line, turns)
            branch = branch if len(branch) == count else [any(branch)] * count
            results = [before or now for before, now in zip(results, branch, strict=True)]
        return results
