"""Whether a trace that was read says of itself what is true: JAX's own check, kernels included.

The interpreter computes with values, Mosaic with the types that are written beside them. Bytes made
by hand could say one thing to each.
"""

from __future__ import annotations

from collections.abc import Iterator

from jax.extend import core

from grader.kernels.carrier.errors import CarrierError
from grader.kernels.jaxprs import UnsupportedJax, inner_jaxprs

try:
    from jax._src.core import JaxprTypeError, check_jaxpr
except ImportError:
    raise UnsupportedJax("jax._src.core.check_jaxpr") from None


def checked(closed: core.ClosedJaxpr) -> core.ClosedJaxpr:
    """The trace, if every variable in it has the type that its equation gives it.

    Call it within `for_chip`, as the trace was made. Raises CarrierError. Takes about as long as
    reading the bytes.
    """
    try:
        check_jaxpr(closed.jaxpr)
        for eqn in _pallas_calls(closed.jaxpr):
            mapping = eqn.params["grid_mapping"]
            with mapping.trace_env():
                check_jaxpr(eqn.params["jaxpr"])
            for block in mapping.block_mappings:
                check_jaxpr(block.index_map_jaxpr.jaxpr)
        return closed
    except JaxprTypeError as error:
        reason = str(error).partition("\n")[0]
    except Exception as error:
        reason = type(error).__name__
    raise CarrierError(f"a trace whose types do not fit: {reason}")


def _pallas_calls(jaxpr: core.Jaxpr) -> Iterator[core.JaxprEqn]:
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "pallas_call":
            yield eqn
        else:
            for inner in inner_jaxprs(eqn):
                yield from _pallas_calls(inner)
