"""What a kernel's body does first to each of its Refs: which are read before they are written."""

from __future__ import annotations

from jax.extend import core

from grader.kernels.jaxprs import inner_jaxprs
from grader.model import Touch

_READS = ("get", "masked_load", "load", "addupdate")


def first_touches(kernel: core.Jaxpr) -> list[Touch]:
    """What a kernel's body does first to each of its Refs, in program order.

    A write inside a `pl.when` counts as guarded: whether it runs depends on the grid step.
    """
    touches = dict.fromkeys(map(id, kernel.invars), Touch.NOTHING)
    _touch(kernel, {id(var): id(var) for var in kernel.invars}, touches, guarded=False)
    return [touches[id(var)] for var in kernel.invars]


def _touch(
    jaxpr: core.Jaxpr, refs: dict[int, int], touches: dict[int, Touch], guarded: bool
) -> None:
    used = {id(var) for eqn in jaxpr.eqns for var in eqn.invars} | set(map(id, jaxpr.outvars))
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        operands = [refs.get(id(var)) for var in eqn.invars]
        inner = inner_jaxprs(eqn)
        for body in inner:
            # A cond's first operand chooses the branch; the rest line up with each branch's. The
            # body of a run_scoped takes its buffers as inputs, what it closes over as constants.
            inputs = body.constvars if name == "run_scoped" else body.invars
            aligned = operands[len(operands) - len(inputs) :]
            mapped = {
                id(var): ref for var, ref in zip(inputs, aligned, strict=False) if ref is not None
            }
            _touch(body, mapped, touches, guarded or name == "cond")
        if inner:
            continue
        # A store is a swap whose old value nobody uses.
        reads = name in _READS or (name == "swap" and id(eqn.outvars[0]) in used)
        for ref in operands:
            if ref is not None and touches[ref] is Touch.NOTHING:
                write = Touch.GUARDED_WRITE if guarded else Touch.WRITE
                touches[ref] = Touch.READ if reads else write
