"""How many arithmetic operations a jax.numpy function takes, as it is written."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import jax
from jax.extend import core

from grader.kernels.jax_internals import dce_jaxpr
from grader.kernels.jaxprs import Shaped, inner_jaxprs, inner_refs

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

#: What converts a number, or puts it elsewhere.
_SAME_NUMBERS = frozenset(
    {
        *("convert_element_type", "transpose", "reshape", "squeeze", "expand_dims", "copy"),
        *("broadcast_in_dim", "slice", "dynamic_slice", "rev"),
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
    return sum(
        times * _own(eqn)
        for eqn, times in _repeated(closed.jaxpr, 1, {})
        if eqn.primitive.name == "dot_general" or not products_alone
    )


def flops_by_dtypes(
    function: Callable[..., object], args: Sequence[object]
) -> tuple[dict[tuple[str, str], int], int]:
    """The operations of matrix products, by the dtypes of their two operands, and all others.

    The dtype of an operand is that before its conversions: XLA multiplies int8 that was converted
    to int32 as int8. Unused operations are left out. Raises what tracing raises.
    """
    closed = jax.make_jaxpr(function)(*args)
    used, _ = dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars))
    products, others, origins = dict[tuple[str, str], int](), 0, dict[int, str]()
    for eqn, times in _repeated(used, 1, origins):
        if eqn.primitive.name == "dot_general":
            left, right = (_origin(operand, origins) for operand in eqn.invars)
            products[left, right] = products.get((left, right), 0) + times * product_flops(eqn)
        else:
            others += times * _own(eqn)
    return products, others


def _repeated(
    jaxpr: core.Jaxpr, times: int, origins: dict[int, str]
) -> Iterator[tuple[core.JaxprEqn, int]]:
    """All equations, also inner ones, and how often each runs; in a loop of unknown length once.

    `origins` gets the dtype that a value had before it was converted and moved, by the variable's
    id.
    """
    for eqn in jaxpr.eqns:
        turns = eqn.params["length"] if eqn.primitive.name == "scan" else 1
        for inner in inner_jaxprs(eqn):
            origins.update(inner_refs(eqn, inner, origins))
            yield from _repeated(inner, times * turns, origins)
            results = zip(eqn.outvars, inner.outvars, strict=False)
            origins.update((id(out), _origin(result, origins)) for out, result in results)
        if eqn.primitive.name in _SAME_NUMBERS:
            origins[id(eqn.outvars[0])] = _origin(eqn.invars[0], origins)
        yield eqn, times


def _origin(atom: core.Var | core.Literal, origins: Mapping[int, str]) -> str:
    return origins.get(id(atom)) or (str(atom.aval.dtype) if isinstance(atom.aval, Shaped) else "")


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
