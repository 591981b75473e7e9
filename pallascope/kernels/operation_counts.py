"""Arithmetic operations and sum lengths of a jax.numpy function; the work of a jaxpr on a CPU.

The first two count the function as it is written. The sum lengths bound its rounding error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from pallascope.kernels.evaluator import Env, Evaluator
from pallascope.kernels.jax_internals import dce_jaxpr
from pallascope.kernels.jaxprs import (
    Atom,
    Shaped,
    array_struct,
    inner_jaxprs,
    most_of,
    passed,
    repetitions,
    sites,
)

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

#: Operations that convert a number, or move it.
_SAME_NUMBERS = frozenset(
    {
        *("convert_element_type", "transpose", "reshape", "squeeze", "expand_dims", "copy"),
        *("broadcast_in_dim", "slice", "dynamic_slice", "rev"),
    }
)


def flops(
    function: Callable[..., object], args: Sequence[object], products_alone: bool = False
) -> int:
    """Operations of `function(*args)`: two for each multiply-add of a matrix product, otherwise one
    for each computed or reduced element. Conversions, comparisons and layouts don't count.

    With `products_alone`, only those of matrix products. Propagates exceptions from tracing.
    """
    closed = jax.make_jaxpr(function)(*args)
    return sum(
        site.times * _own(site.eqn)
        for site in sites(closed.jaxpr)
        if site.eqn.primitive.name == "dot_general" or not products_alone
    )


def flops_by_dtypes(
    function: Callable[..., object], args: Sequence[object]
) -> tuple[dict[tuple[str, str], int], int]:
    """The operations of matrix products, by the dtypes of their two operands, and all others.

    The dtype of an operand is that before its conversions: XLA multiplies int8 that was converted
    to int32 as int8. Unused operations are left out. Propagates exceptions from tracing.
    """
    closed = jax.make_jaxpr(function)(*args)
    used, _ = dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars))
    counter = _CounterByDtypes()
    counter.evaluate(used, list(map(_dtype, used.invars)))
    return counter.products, counter.others


class _CounterByDtypes(Evaluator):
    """A value is its dtype before it was converted and moved; "" if it isn't an array."""

    def __init__(self) -> None:
        self.products: dict[tuple[str, str], int] = {}
        self.others = 0
        self._times = 1  # of the scans around

    def constant(self, value: object) -> str:
        return ""  # its type has the dtype

    def value(self, atom: Atom, env: Env) -> str:
        return (isinstance(atom, core.Var) and env.get(atom)) or _dtype(atom)

    def operation(self, eqn: core.JaxprEqn, inputs: list[str], env: Env) -> list[str]:
        if eqn.primitive.name == "dot_general":
            left, right = inputs
            count = self.products.get((left, right), 0) + self._times * product_flops(eqn)
            self.products[left, right] = count
            return [_dtype(eqn.outvars[0])]
        self.others += self._times * _own(eqn)
        results = list(map(_dtype, eqn.outvars))
        if eqn.primitive.name in _SAME_NUMBERS:
            return inputs[:1]
        self._times *= (times := repetitions(eqn))
        for inner in inner_jaxprs(eqn):
            given = {var: self.value(atom, env) for var, atom in passed(eqn, inner)}
            found = self.evaluate(inner, [given.get(var, "") for var in inner.invars])
            results[: len(found)] = found[: len(results)]
        self._times //= times
        return results


def _dtype(atom: Atom) -> str:
    return str(atom.aval.dtype) if isinstance(atom.aval, Shaped) else ""


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
    """The number of terms in the longest sum (or product) of a jax.numpy function; at least 1."""
    closed = jax.make_jaxpr(lambda *arrays: function(*arrays, **kwargs))(*args)
    return max(_sums(closed.jaxpr, (*_PRODUCTS, *_SUMS, "scatter-add")), default=1)


def longest_product(
    function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
) -> int:
    """The same for matrix products and convolutions only."""
    closed = jax.make_jaxpr(lambda *arrays: function(*arrays, **kwargs))(*args)
    return max(_sums(closed.jaxpr, _PRODUCTS), default=1)


def _sums(jaxpr: core.Jaxpr, of: Sequence[str]) -> Iterator[int]:
    for site in sites(jaxpr):
        yield site.times * repetitions(site.eqn)  # each iteration of a scan may add
        if site.eqn.primitive.name in of:
            yield from (site.times * terms for terms in _terms(site.eqn))


def _terms(eqn: core.JaxprEqn) -> Iterator[int]:
    """The number of terms that an equation adds up, if it does."""
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


#: A copied element takes as long as this many operations of a matrix product.
COPIED = 4
#: As COPIED, for an elementwise operation; in a loop; of a dtype that the CPU emulates.
ELEMENTWISE, IN_LOOPS, EMULATED = 32, 128, 2048


def work_of(jaxpr: core.Jaxpr) -> float:
    """The most work of one run of a jaxpr, in operations of matrix products.

    A loop whose number of turns isn't known counts as SOME_TURNS.
    """
    return most_of(jaxpr, _work_of_one)


_COPIES = ("broadcast_in_dim", "dynamic_slice", "get", "reshape", "slice", "squeeze", "swap")
#: Operations in place, and the operand with the new values.
_UPDATES = {"dynamic_update_slice": 1, "scatter": 2}


def _work_of_one(eqn: core.JaxprEqn, in_loop: bool) -> float:
    name = eqn.primitive.name
    if name == "dot_general":
        return product_work(eqn)
    if inner_jaxprs(eqn) or not eqn.outvars or name == "with_memory_space_constraint":
        return 0.0
    result = eqn.invars[_UPDATES[name]].aval if name in _UPDATES else eqn.outvars[0].aval
    size = math.prod(result.shape) if isinstance(result, Shaped) else 1
    if name in _COPIES or name in _UPDATES:
        return size * COPIED
    if any(map(_is_emulated, (*eqn.invars, *eqn.outvars))):
        return size * EMULATED
    return size * (IN_LOOPS if in_loop else ELEMENTWISE)


def product_work(eqn: core.JaxprEqn) -> float:
    """The operations of a `dot_general`."""
    (contracted, _), _ = eqn.params["dimension_numbers"]
    shape = array_struct(eqn.invars[0]).shape
    terms = math.prod(shape[axis] for axis in contracted)
    return 2.0 * terms * math.prod(array_struct(eqn.outvars[0]).shape)


def _is_emulated(atom: Atom) -> bool:
    """Whether an array has floating numbers of 8 bits or fewer."""
    dtype = getattr(atom.aval, "dtype", None)
    floats = dtype is not None and jnp.issubdtype(dtype, jnp.floating)
    return floats and np.dtype(dtype).itemsize == 1
