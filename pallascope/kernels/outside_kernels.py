"""Operations around the kernels of a trace, and constants in it.

Arrays whose contents a trace holds: they were computed before it was made.

The operations around the kernels of a trace, and which values a kernel had a hand in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from jax.extend import core

from pallascope.kernels.aliases import is_bitcast
from pallascope.kernels.calls import array_type, operation
from pallascope.kernels.jaxprs import Atom, expanded, inner_jaxprs
from pallascope.kernels.pallas_params import KERNELS
from pallascope.kernels.source_lines import line_in
from pallascope.model import Constant, Operation

#: What a constant may take, in bytes: a few numbers by which a launch is arranged.
SMALL = 4 << 10


def large_constants(closed: core.ClosedJaxpr, file: str) -> Iterator[Constant]:
    """The arrays of more than SMALL bytes whose contents a trace holds, kernels included."""
    yield from _large(closed.jaxpr, closed.consts, file)


def _large(jaxpr: core.Jaxpr, consts: list[object], file: str) -> Iterator[Constant]:
    large = {
        id(var): size
        for var, const in zip(jaxpr.constvars, consts, strict=False)
        if (size := _bytes(const)) > SMALL
    }
    yield from _used(jaxpr, large, file)
    for eqn in jaxpr.eqns:
        for atom in eqn.invars:
            if isinstance(atom, core.Literal) and (size := _bytes(atom.val)) > SMALL:
                yield Constant(array_type(atom.aval), size, line_in(eqn, file))
        for value in _closed(eqn):
            yield from _large(value.jaxpr, value.consts, file)
        for inner in inner_jaxprs(eqn):
            if not any(inner is value.jaxpr for value in _closed(eqn)):
                yield from _large(inner, [], file)


def _used(jaxpr: core.Jaxpr, large: Mapping[int, int], file: str) -> Iterator[Constant]:
    """The large constants of one jaxpr, with the line of the equation that uses each first."""
    for var in jaxpr.constvars:
        if id(var) in large:
            uses = (eqn for eqn in jaxpr.eqns if any(atom is var for atom in eqn.invars))
            first = next(uses, None)
            line = line_in(first, file) if first is not None else 0
            yield Constant(array_type(var.aval), large[id(var)], line)


def _closed(eqn: core.JaxprEqn) -> Iterator[core.ClosedJaxpr]:
    for value in eqn.params.values():
        for one in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(one, core.ClosedJaxpr):
                yield one


def _bytes(value: object) -> int:
    return int(getattr(value, "nbytes", 0) or 0)


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
