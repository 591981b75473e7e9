"""How many arithmetic operations a jax.numpy function takes, as it is written."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import jax
from jax.extend import core

from grader.kernels.jaxprs import Shaped, inner_jaxprs

#: One operation for each element of the result.
_ELEMENTWISE = frozenset(
    {
        *("add", "sub", "mul", "div", "rem", "neg", "abs", "max", "min"),
        *("exp", "exp2", "log", "log1p", "expm1", "sqrt", "rsqrt", "tanh", "logistic"),
        *("sin", "cos", "pow", "integer_pow", "square", "erf"),
    }
)
#: One for each element of the operand.
_REDUCTIONS = frozenset(
    {
        *(
            "reduce_sum",
            "reduce_max",
            "reduce_min",
            "reduce_prod",
            "cumsum",
            "cummax",
            "cumprod",
            "argmax",
            "argmin",
        ),
    }
)


def flops(
    function: Callable[..., object], args: Sequence[object], products_alone: bool = False
) -> int:
    """Operations of `function(*args)`: two for each multiply-add of a matrix product, else one for
    each element that is computed or reduced. Conversions, comparisons and layouts are none.

    With `products_alone`, only those of matrix products. Raises what tracing raises.
    """
    closed = jax.make_jaxpr(function)(*args)
    return sum(_counted(closed.jaxpr, products_alone))


def _counted(jaxpr: core.Jaxpr, products_alone: bool) -> Iterator[int]:
    for eqn in jaxpr.eqns:
        turns = eqn.params["length"] if eqn.primitive.name == "scan" else 1
        inside = (_counted(inner, products_alone) for inner in inner_jaxprs(eqn))
        yield turns * sum(map(sum, inside))
        if eqn.primitive.name == "dot_general" or not products_alone:
            yield _own(eqn)


def _own(eqn: core.JaxprEqn) -> int:
    name = eqn.primitive.name
    if name == "dot_general":
        return product_flops(eqn)
    if name in _REDUCTIONS:
        return math.prod(_shape(eqn.invars[0]))
    return math.prod(_shape(eqn.outvars[0])) if name in _ELEMENTWISE else 0


def product_flops(dot_general: core.JaxprEqn) -> int:
    """Operations of a matrix product: two for each multiply-add."""
    (contracted, _), _ = dot_general.params["dimension_numbers"]
    terms = math.prod(_shape(dot_general.invars[0])[axis] for axis in contracted)
    return 2 * terms * math.prod(_shape(dot_general.outvars[0]))


def _shape(atom: core.Var | core.Literal) -> tuple[int, ...]:
    return atom.aval.shape if isinstance(atom.aval, Shaped) else ()
