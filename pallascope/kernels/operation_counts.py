"""Arithmetic operations and sum lengths of a jax.numpy function.

How many arithmetic operations a jax.numpy function takes, as it is written.

How many terms the sums of a jax.numpy function have: they bound its rounding error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import jax
from jax.extend import core

from pallascope.kernels.jax_internals import dce_jaxpr
from pallascope.kernels.jaxprs import Shaped, inner_jaxprs, inner_refs

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


_PRODUCTS = ("dot_general", "conv_general_dilated")
_SUMS = ("reduce_sum", "reduce_prod", "cumsum", "cumprod", "cumlogsumexp")


def longest_sum(
    function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
) -> int:
    """How many terms the longest sum (or product) of a jax.numpy function has; 1 if it has none."""
    closed = jax.make_jaxpr(lambda *arrays: function(*arrays, **kwargs))(*args)
    return max(_sums(closed.jaxpr, (*_PRODUCTS, *_SUMS, "scatter-add")), default=1)


def longest_product(
    function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
) -> int:
    """The same of matrix products and convolutions alone."""
    closed = jax.make_jaxpr(lambda *arrays: function(*arrays, **kwargs))(*args)
    return max(_sums(closed.jaxpr, _PRODUCTS), default=1)


def _sums(jaxpr: core.Jaxpr, of: Sequence[str]) -> Iterator[int]:
    for eqn in jaxpr.eqns:
        terms_inside = [terms for inner in inner_jaxprs(eqn) for terms in _sums(inner, of)]
        turns = eqn.params["length"] if eqn.primitive.name == "scan" else 1  # each may add
        yield turns * max(terms_inside, default=1)
        if eqn.primitive.name in of:
            yield from _terms(eqn)


def _terms(eqn: core.JaxprEqn) -> Iterator[int]:
    """How many terms one equation adds up, if it does."""
    name, params = eqn.primitive.name, eqn.params
    avals = [var.aval for var in eqn.invars]
    shapes: list[tuple[int, ...]] = [a.shape if isinstance(a, Shaped) else () for a in avals]
    if name == "dot_general":
        (contracted, _), _ = params["dimension_numbers"]
        yield math.prod(shapes[0][axis] for axis in contracted)
    elif name in _SUMS:
        axes = params["axes"] if "axes" in params else (params["axis"],)
        yield math.prod(shapes[0][axis] for axis in axes)
    elif name == "conv_general_dilated":
        features = shapes[1][params["dimension_numbers"].rhs_spec[0]]
        yield math.prod(shapes[1]) // max(features, 1)
    elif name == "scatter-add":
        yield shapes[2][0] if shapes[2] else 1
