"""What a kernel's body does first to each of its Refs: which are read before they are written."""

from __future__ import annotations

from jax.extend import core

from grader.kernels.copies import ends, ref_of
from grader.kernels.jaxprs import inner_jaxprs, inner_refs
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
        inner = inner_jaxprs(eqn)
        for body in inner:
            _touch(body, inner_refs(eqn, body, refs), touches, guarded or name == "cond")
        if inner or name == "dma_wait":  # what is waited for was touched by the start
            continue
        # A store is a swap whose old value nobody uses.
        reads = name in _READS or (name == "swap" and id(eqn.outvars[0]) in used)
        source = ref_of(ends(eqn)[0]) if name == "dma_start" else None
        for var in eqn.invars:
            ref = refs.get(id(var))
            if ref is not None and touches[ref] is Touch.NOTHING:
                write = Touch.GUARDED_WRITE if guarded else Touch.WRITE
                touches[ref] = Touch.READ if reads or var is source else write
