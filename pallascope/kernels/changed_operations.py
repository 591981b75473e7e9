"""Operations that make NaN or infinity, and changes of one operation that make a launch right.

A diagnosis that names a line of a kernel is tested: the kernel runs again with one operation
changed, as a beginner would mend it. `repairs` lists these changes: a store that adds, a comparison
with another sign, another dimension of the grid.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core

from pallascope.kernels.block_samples import run_length
from pallascope.kernels.edges_of_mosaic import replaced_by, rewriting
from pallascope.kernels.evaluator import bind
from pallascope.kernels.jaxprs import CALLS, Shaped, Site, array_struct, primitives, sites
from pallascope.kernels.pallas_params import body, grid_mapping, is_pallas_call
from pallascope.kernels.source_lines import line_of

# ---- NaN and infinity ----

#: Operations that may make NaN of other numbers, and those that may make infinity.
_MAKE_NAN = (
    *("add", "add_any", "sub", "mul", "div", "rem", "dot_general", "reduce_sum", "cumsum"),
    *("log", "log1p", "sqrt", "rsqrt", "pow", "sin", "cos", "tan", "acos", "asin", "atanh"),
    "convert_element_type",
)
_MAKE_INFINITY = (*_MAKE_NAN, "exp", "exp2", "expm1", "integer_pow", "square", "cumprod")


@contextlib.contextmanager
def noting_nonfinite(
    note: Callable[[str, core.JaxprEqn], None], infinity: bool = False
) -> Iterator[None]:
    """Call `note` with each operation of kernels that makes NaN of operands without any.

    If `infinity`, with each operation that makes infinity of finite operands.
    It gets the operation's name and its equation, in any order, each time that the operation runs.
    Enter it before `running`, in strict mode.
    """

    def noted(_: core.Primitive, *args: Any, eqn: core.JaxprEqn, name: str, **__: Any) -> list[Any]:
        results = bind(eqn, args)
        made = _any_new(jnp.isinf if infinity else jnp.isnan, results[0], args)
        jax.debug.callback(lambda is_true: is_true and note(name, eqn), made)
        return results

    def replacement(eqn: core.JaxprEqn, _: object) -> list[core.JaxprEqn]:
        name = getattr(eqn.params.get("of"), "name", eqn.primitive.name)  # of `replaced_by`
        if name not in (_MAKE_INFINITY if infinity else _MAKE_NAN) or not _is_float(eqn.outvars[0]):
            return [eqn]
        return [replaced_by(eqn, functools.partial(noted, eqn=eqn, name=name))]

    with rewriting(replacement):
        yield


def _is_float(value: Any) -> bool:
    return jnp.issubdtype(getattr(value, "aval", value).dtype, jnp.floating)


def _any_new(
    kind: Callable[[jax.Array], jax.Array], result: jax.Array, operands: Sequence[jax.Array]
) -> jax.Array:
    """Whether a result holds numbers of a `kind` where its operands are other ones.

    Of an operand in another shape, no element may be of the kind.
    """
    made = kind(result)
    for operand in filter(_is_float, operands):
        given = kind(operand)
        made &= ~(given if operand.shape == result.shape else given.any())
    return made.any()


# ---- repairs ----

#: The most changes of a launch that are tried: each compiles it once.
MOST_REPAIRS = 8
#: The length of all their runs together, in that of the longest run at production size.
MOST_LENGTH = 0.12
Replacement = Callable[[core.JaxprEqn], Sequence[core.JaxprEqn]]


@dataclass(frozen=True, slots=True)
class Repair:
    """A change of operations in one line: "had <= instead of <"; `by` makes those in their place.

    Most lines have one such operation, those of an unrolled loop several.
    """

    change: str
    line: int
    by: tuple[tuple[core.JaxprEqn, Replacement], ...]

    @contextlib.contextmanager
    def made(self) -> Iterator[None]:
        """Let the strict interpreter run the changed kernel. Enter it before `running`."""

        def replacement(eqn: core.JaxprEqn, _: object) -> Sequence[core.JaxprEqn]:
            for old, new in self.by:
                same = eqn.primitive is old.primitive and eqn.source_info is old.source_info
                if same and eqn.params == old.params:
                    return new(eqn)
            return [eqn]

        with rewriting(replacement):
            yield


def repairs(kernels: Sequence[core.JaxprEqn], file: str) -> list[Repair]:
    """The changes of operations in lines of `file`, the likeliest first: at most MOST_REPAIRS.

    There are fewer for a long run, since each change needs one, but at least one.
    No condition changes in a kernel that copies or waits by itself, since it might wait for ever.
    """
    found: dict[tuple[int, int, str], list[tuple[core.JaxprEqn, Replacement]]] = {}
    for kernel in kernels:
        names = set(primitives(body(kernel)))
        waits = any(name.startswith(("dma_", "semaphore_", "while")) for name in names)
        rank = len(grid_mapping(kernel).grid) if is_pallas_call(kernel) else 0
        every = list(sites(body(kernel)))
        dataflow = _Dataflow(
            {id(var): site.eqn for site in every for var in site.eqn.outvars},
            {id(site.eqn.invars[1]): site.eqn for site in every if _is_store(site.eqn)},
        )
        lines: dict[int, set[int]] = {}
        for site in every:
            lines.setdefault(id(site.eqn), set()).add(_line(site, file))
        for site in every:
            line, *others = lines[id(site.eqn)]
            if line and not others:
                for order, change, by in _changes(site.eqn, rank, waits, dataflow):
                    found.setdefault((order, line, change), []).append((site.eqn, by))
    made = (
        Repair(change, line, tuple(some))
        for (_, line, change), every in sorted(found.items(), key=lambda each: each[0])
        for some in ([every] if len(every) == 1 else [every, *([one] for one in every)])
    )
    length = max(sum(map(run_length, kernels)), MOST_LENGTH / MOST_REPAIRS)
    return list(itertools.islice(made, max(1, int(MOST_LENGTH / length))))


def _line(site: Site, file: str) -> int:
    """The line of an equation; of the call, if it is in a function of jax.numpy, which is traced
    once for all calls."""
    calls = [eqn for eqn in site.path if eqn.primitive.name in CALLS]
    return line_of((calls[0] if calls else site.eqn).source_info, file)


def _is_store(eqn: core.JaxprEqn) -> bool:
    return eqn.primitive.name == "swap"


@dataclass(frozen=True, slots=True)
class _Dataflow:
    """By a variable's id: the equation that computes it, and the one that stores it."""

    makers: Mapping[int, core.JaxprEqn]
    stores: Mapping[int, core.JaxprEqn]

    def is_sum_or_constant(self, store: core.JaxprEqn) -> bool:
        """Whether a stored value is a sum with the old contents of the same Ref, or one number."""
        ref, value = store.invars[:2]
        maker = self.makers.get(id(value))
        while maker is not None and maker.primitive.name in ("convert_element_type", "reshape"):
            maker = self.makers.get(id(maker.invars[0]))
        if maker is None:
            return isinstance(value, core.Literal)
        if maker.primitive.name == "broadcast_in_dim" and isinstance(maker.invars[0], core.Literal):
            return True
        return any(self._is_read(operand, ref) for operand in maker.invars)

    def added_to_its_ref(self, plus: core.JaxprEqn) -> int | None:
        """The position of the operand of a sum that is added to a Ref's contents, and stored."""
        store = self.stores.get(id(plus.outvars[0]))
        if store is None:
            return None
        for old, new in ((0, 1), (1, 0)):
            if self._is_read(plus.invars[old], store.invars[0]) and _alike(*plus.invars):
                return new
        return None

    def _is_read(self, value: Any, ref: Any) -> bool:
        maker = self.makers.get(id(value))
        return maker is not None and maker.primitive.name == "get" and maker.invars[0] is ref


#: Comparisons in the place of another, and their signs.
_OTHER_SIGNS = {"lt": ("le",), "le": ("lt", "eq"), "gt": ("ge",), "ge": ("gt", "eq")}
_SIGNS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "=="}
_COMPARE = {"lt": lax.lt_p, "le": lax.le_p, "gt": lax.gt_p, "ge": lax.ge_p, "eq": lax.eq_p}
#: By operation on floats: the one in its place, and the change in words.
_OTHERS = {
    "max": ("min", lax.min_p, "took the minimum instead of the maximum"),
    "min": ("max", lax.max_p, "took the maximum instead of the minimum"),
    "add": ("sub", lax.sub_p, "had - instead of +"),
    "sub": ("add", lax.add_p, "had + instead of -"),
    "mul": ("div", lax.div_p, "divided instead of multiplying"),
    "div": ("mul", lax.mul_p, "multiplied instead of dividing"),
    "exp": ("exp2", lax.exp2_p, "had exp2 instead of exp"),
    "exp2": ("exp", lax.exp_p, "had exp instead of exp2"),
    "sqrt": ("rsqrt", lax.rsqrt_p, "had rsqrt instead of sqrt"),
    "rsqrt": ("sqrt", lax.sqrt_p, "had sqrt instead of rsqrt"),
}
#: Operations with a parameter for their accuracy.
_INEXACT = ("exp", "exp2", "sqrt", "rsqrt")


def _changes(
    eqn: core.JaxprEqn, rank: int, waits: bool, dataflow: _Dataflow
) -> Iterator[tuple[int, str, Replacement]]:
    """Changes of one operation: their order, in words, and by which equations."""
    name = eqn.primitive.name
    match name:
        case "swap" if _is_number(eqn.invars[1]) and not dataflow.is_sum_or_constant(eqn):
            yield 0, "added to the Ref (+=) instead of storing to it", _adding
        case "add" if (kept := dataflow.added_to_its_ref(eqn)) is not None:
            yield 1, "stored to the Ref instead of adding to it", functools.partial(_only, kept)
        case "lt" | "le" | "gt" | "ge" if not waits and not _is_float(eqn.invars[0]):
            for other in _OTHER_SIGNS[name]:
                if other != "eq" or not array_struct(eqn.outvars[0]).shape:
                    change = f"had {_SIGNS[other]} instead of {_SIGNS[name]}"
                    yield 2, change, functools.partial(_with, primitive=_COMPARE[other])
        case "program_id" if not waits:
            for axis in set(range(rank)) - {eqn.params["axis"]}:
                change = f"had pl.program_id({axis}) instead of pl.program_id({eqn.params['axis']})"
                yield 3, change, functools.partial(_with, params={**eqn.params, "axis": axis})
        case "iota":
            own = eqn.params["dimension"]
            for axis in set(range(len(eqn.params["shape"]))) - {own}:
                change = f"counted along dimension {axis} instead of {own}"
                yield 4, change, functools.partial(_with, params={**eqn.params, "dimension": axis})
        case "select_n" if len(eqn.invars) == 3 and not waits:
            which, no, yes = eqn.invars
            change = "exchanged the two values of jnp.where"
            yield 5, change, functools.partial(_with, invars=[which, yes, no])
    if name == "sub" and _alike(*eqn.invars):
        change = "exchanged the two sides of the minus"
        yield 6, change, functools.partial(_with, invars=eqn.invars[::-1])
    if name in _OTHERS and _is_float(eqn.invars[0]):
        other, primitive, change = _OTHERS[name]
        params = {"accuracy": None} if other in _INEXACT else {}
        yield 7, change, functools.partial(_with, primitive=primitive, params=params)


def _is_number(atom: Any) -> bool:
    aval = atom.aval
    return isinstance(aval, Shaped) and jnp.issubdtype(aval.dtype, jnp.number)


def _alike(one: Any, other: Any) -> bool:
    first, second = array_struct(one), array_struct(other)
    return (first.shape, first.dtype) == (second.shape, second.dtype)


def _with(eqn: core.JaxprEqn, **changes: Any) -> list[core.JaxprEqn]:
    return [eqn.replace(**changes)]


def _adding(eqn: core.JaxprEqn) -> list[core.JaxprEqn]:
    """A store that adds: the old contents are swapped out, and the sum in."""
    ref, value, *index = eqn.invars
    old, total = core.Var(value.aval), core.Var(value.aval)
    plus: dict[str, Any] = {"primitive": lax.add_p, "params": {}, "effects": frozenset()}
    return [
        eqn.replace(outvars=[old]),
        eqn.replace(invars=[old, value], outvars=[total], **plus),
        eqn.replace(invars=[ref, total, *index]),
    ]


def _only(position: int, eqn: core.JaxprEqn) -> list[core.JaxprEqn]:
    """One operand in the place of a sum."""
    dtype = array_struct(eqn.outvars[0]).dtype
    return [
        eqn.replace(
            primitive=lax.convert_element_type_p,
            invars=[eqn.invars[position]],
            params={"new_dtype": dtype, "weak_type": False, "sharding": None},
            effects=frozenset(),
        )
    ]
