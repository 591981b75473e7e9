"""What loops keep in their equations: what comes in again, and how many turns they make."""

from __future__ import annotations

from jax.extend import core


def loop_constants(scan: core.JaxprEqn) -> int:
    """How many inputs of a scan are the same in every turn; they come first."""
    return _counts(scan)[0]


def carried(scan: core.JaxprEqn) -> int:
    """How many inputs of a scan, after the constants, are results of the turn before."""
    return _counts(scan)[1]


def _counts(scan: core.JaxprEqn) -> tuple[int, int]:
    match scan.params:
        case {"num_consts": int(fixed), "num_carry": int(carry)}:  # before jax 0.12
            return fixed, carry
    try:
        fixed, carry, _ = scan.params["ft_in"].unpack()
        return len(list(fixed)), len(list(carry))
    except (AttributeError, KeyError, TypeError, ValueError):
        return 0, 0  # moved again; then what happens in loops is not known


def turns(loop: core.JaxprEqn) -> int | None:
    """How often the body of a `while` runs; None unless it counts by ones to a known bound.

    That is what `lax.fori_loop` makes of bounds that are arrays: a count, the bound, and the rest.
    """
    stop, body = loop.params["cond_jaxpr"].jaxpr, loop.params["body_jaxpr"].jaxpr
    fixed, first = loop.params["body_nconsts"], loop.params["cond_nconsts"]
    if len(stop.eqns) != 1 or stop.eqns[0].primitive.name != "lt" or first:
        return None
    (asked,) = stop.eqns
    if stop.outvars != asked.outvars or not all(var in stop.invars for var in asked.invars):
        return None
    count, bound = (stop.invars.index(var) for var in asked.invars)
    carry = body.invars[fixed:]
    if body.outvars[bound] is not carry[bound] or not _one_more(body, count, carry[count]):
        return None
    start, end = (loop.invars[fixed + position] for position in (count, bound))
    if not (isinstance(start, core.Literal) and isinstance(end, core.Literal)):
        return None
    return max(int(end.val) - int(start.val), 0)


def _one_more(body: core.Jaxpr, position: int, than: core.Var) -> bool:
    """Whether a result of a body is one of its inputs, plus 1."""
    made = next((eqn for eqn in body.eqns if body.outvars[position] in eqn.outvars), None)
    if made is None or made.primitive.name != "add":
        return False
    by = made.invars[1]
    return made.invars[0] is than and isinstance(by, core.Literal) and by.val == 1
