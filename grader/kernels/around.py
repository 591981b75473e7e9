"""What stands around the kernels of a trace, and which values a kernel had a hand in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grader.kernels.jaxprs import inner_jaxprs

KERNELS = ("pallas_call", "core_map", "mpmd_map")
_WRAPPERS = ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call")


class Reader:
    """Walks a jaxpr outside of kernels; gathers kernels and other operations in program order."""

    def __init__(self) -> None:
        self.equations: list[Any] = []
        self.outside: list[str] = []

    def read(self, jaxpr: Any, tainted: Sequence[bool]) -> list[bool]:
        """Which results depend on a kernel, given which inputs do."""
        from_kernel = {id(var): flag for var, flag in zip(jaxpr.invars, tainted, strict=True)}

        def flag(var: Any) -> bool:
            return from_kernel.get(id(var), False)

        for eqn in jaxpr.eqns:
            flags = [flag(var) for var in eqn.invars]
            outs = self._equation(eqn, flags)
            from_kernel.update((id(var), f) for var, f in zip(eqn.outvars, outs, strict=True))
        return [flag(var) for var in jaxpr.outvars]

    def _equation(self, eqn: Any, flags: list[bool]) -> list[bool]:
        name = eqn.primitive.name
        count = len(eqn.outvars)
        if name in KERNELS:
            if name == "pallas_call":
                self.equations.append(eqn)
            return [True] * count
        inner = inner_jaxprs(eqn)
        if name not in _WRAPPERS or not inner:
            self.outside.append(name)
        results = [False if inner else any(flags)] * count
        for sub in inner:
            # A cond's first operand chooses the branch; the rest line up with each branch's.
            aligned = flags[len(flags) - len(sub.invars) :]
            matching = (
                aligned if len(aligned) == len(sub.invars) else [any(flags)] * len(sub.invars)
            )
            found = self.read(sub, matching)
            found = found if len(found) == count else [any(found)] * count
            results = [one or other for one, other in zip(results, found, strict=True)]
        return results
