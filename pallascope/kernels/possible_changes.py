"""The changes of single operations with which a beginner would mend a kernel.

Each is a tuple: its order (the likeliest first), in words, and the equations in the operation's
place. `simple_changes` are a few that are worth a whole run; `further_changes` are many.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import ShapedArray
from jax.extend import core

from pallascope.kernels.cpu_runs import Replacement
from pallascope.kernels.edges_of_mosaic import replaced_by
from pallascope.kernels.jaxprs import (
    CALLS,
    Shaped,
    Site,
    array_struct,
    called,
    inner_jaxprs,
)
from pallascope.kernels.refs import names_of
from pallascope.kernels.source_lines import Source, line_of, place_of

#: A change: its order, in words, and by which equations.
Change = tuple[int, str, Replacement]
#: Equations that change together.
Together = tuple[tuple[core.JaxprEqn, Replacement], ...]


def calls_of_libraries(site: Site, file: str) -> list[core.JaxprEqn]:
    """The calls around an equation, except those of functions of `file`."""
    around = [(eqn, called(eqn)) for eqn in site.path if eqn.primitive.name in CALLS]
    return [eqn for eqn, inner in around if inner is None or not _is_of(inner, file)]


def _is_of(function: Any, file: str) -> bool:
    """Whether a traced function is one of `file`."""
    info = getattr(function, "jaxpr", function).debug_info
    return f" at {file}:" in f" {getattr(info, 'func_src_info', '') or ''}"


def is_store(eqn: core.JaxprEqn) -> bool:
    return eqn.primitive.name == "swap"


@dataclass(frozen=True, slots=True)
class Dataflow:
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
_OTHER_SIGNS = {
    "lt": ("le", "gt"),
    "le": ("lt", "ge", "eq"),
    "gt": ("ge", "lt"),
    "ge": ("eq", "le", "gt"),
}
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


def simple_changes(
    eqn: core.JaxprEqn, rank: int, waits: bool, dataflow: Dataflow
) -> Iterator[Change]:
    """Changes of one operation: their order, in words, and by which equations."""
    name = eqn.primitive.name
    match name:
        case "swap" if _is_number(eqn.invars[1]) and not dataflow.is_sum_or_constant(eqn):
            yield 0, "added to the Ref (+=) instead of storing to it", _adding
        case "add" if (kept := dataflow.added_to_its_ref(eqn)) is not None:
            yield 1, "stored to the Ref instead of adding to it", functools.partial(only, kept)
        case "lt" | "le" | "gt" | "ge" if not waits and not _is_float(eqn.invars[0]):
            for order, other in zip((2, 8, 8), _OTHER_SIGNS[name], strict=False):
                if other != "eq" or not array_struct(eqn.outvars[0]).shape:
                    change = f"had {_SIGNS[other]} instead of {_SIGNS[name]}"
                    yield order, change, functools.partial(_with, primitive=_COMPARE[other])
        case "jit" | "pjit" if (name := eqn.params["name"]) in _QUOTIENTS and not waits:
            signs, function = _QUOTIENTS[name]
            yield 4, f"had {signs}", functools.partial(with_function, function)
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
    if name == "sub" and (_alike(*eqn.invars) or _is_one_minus(eqn)):
        change = "exchanged the two sides of the minus"
        yield 6, change, functools.partial(_with, invars=eqn.invars[::-1])
    if name in _OTHERS and _is_float(eqn.invars[0]):
        other, primitive, change = _OTHERS[name]
        params = {"accuracy": None} if other in _INEXACT else {}
        yield 7, change, functools.partial(_with, primitive=primitive, params=params)


def _is_one_minus(eqn: core.JaxprEqn) -> bool:
    """Whether a float number is subtracted, or something from it."""
    return _is_float(eqn.outvars[0]) and any(isinstance(each, core.Literal) for each in eqn.invars)


def with_function(
    function: Callable[..., Any], eqn: core.JaxprEqn, operands: Sequence[Any] | None = None
) -> list[core.JaxprEqn]:
    """An equation with a function's result, of its own operands or of others of any shape."""
    invars = eqn.invars if operands is None else list(operands)
    return [replaced_by(eqn, lambda _, *given: [function(*given)], invars=invars, params={})]


#: By the name of a function of jax.numpy: the change in words, and the function in its place.
_QUOTIENTS = {
    "floor_divide": ("% instead of //", jnp.remainder),
    "remainder": ("// instead of %", jnp.floor_divide),
}


def _is_float(atom: Any) -> bool:
    return jnp.issubdtype(array_struct(atom).dtype, jnp.floating)


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


def only(position: int, eqn: core.JaxprEqn) -> list[core.JaxprEqn]:
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


#: The beginnings of names that aren't in the file: a launch's inputs, and Refs without a name.
_UNNAMED = ("arrays[", "operand ")


@dataclass(frozen=True, slots=True)
class Names:
    """The names in the source of a jaxpr's values, by the ids of their variables."""

    by: Mapping[int, str]

    @classmethod
    def of(cls, every: Sequence[Site], jaxpr: core.Jaxpr, source: Source) -> Names:
        found = {id(var): name for var, name in zip(jaxpr.invars, names_of(jaxpr), strict=True)}
        last: dict[tuple[int, str], core.Var] = {}
        for site in every:
            eqn = site.eqn
            if eqn.primitive.name == "run_scoped":
                (inner,) = inner_jaxprs(eqn)
                found |= {id(v): n for v, n in zip(inner.invars, names_of(inner), strict=True)}
            if calls_of_libraries(site, source.file) or len(eqn.outvars) != 1:
                continue
            if eqn.primitive.name == "get" and (ref := found.get(id(site.root(eqn.invars[0])))):
                found[id(eqn.outvars[0])] = f"{ref}[...]"
            if eqn.primitive.name == "convert_element_type" and id(eqn.invars[0]) in found:
                found[id(eqn.outvars[0])] = found[id(eqn.invars[0])]
            if name := source.assigned(place_of(eqn.source_info, source.file)):
                last[id(site.jaxpr), name] = eqn.outvars[0]
        found |= {id(var): name for (_, name), var in last.items()}
        return cls({at: name for at, name in found.items() if not name.startswith(_UNNAMED)})

    def of_atom(self, site: Site, atom: Any) -> str:
        """The name of an operand; "" if it has none."""
        if isinstance(atom, core.Literal):
            return str(atom.val) if np.ndim(atom.val) == 0 else ""
        return self.by.get(id(atom)) or self.by.get(id(site.root(atom)), "")


def further_changes(
    site: Site, names: Names, kernel: core.Jaxpr, file: str, grid: Sequence[int]
) -> Iterator[Change]:
    """Changes of one operation in a kernel that runs over this grid."""
    yield from _left_out(site, names)
    yield from _other_parts(site.eqn)
    yield from _other_operands(site, names, file)
    yield from _one_more_factor(site, names, file)
    yield from _one_more_term(site, names, kernel)
    yield from _other_entries(site, names, kernel, file)
    yield from _other_parentheses(site, names)
    yield from _other_numbers(site, names, kernel, grid)
    yield from _in_some_steps(site, names, grid)


_ARITHMETIC = {"add": "+ ", "sub": "- ", "mul": "* ", "div": "/ ", "rem": "% "}
_FUNCTIONS = (
    *("exp", "exp2", "log", "tanh", "sqrt", "rsqrt", "abs", "integer_pow", "neg", "logistic"),
)


def _left_out(site: Site, names: Names) -> Iterator[Change]:
    """One operand in the place of an operation."""
    eqn = site.eqn
    name = eqn.primitive.name
    if name in _FUNCTIONS:
        yield 9, f"had no {_FUNCTION_NAMES.get(name, name)}", functools.partial(only, 0)
    elif name in _LOGIC and _alike(*eqn.invars):
        for kept, side in enumerate(("left", "right")):
            yield 9, f"had only the {side} side of {_LOGIC[name]}", functools.partial(only, kept)
    elif name in _ARITHMETIC and len(eqn.invars) == 2:
        for kept, other in enumerate(eqn.invars[::-1]):
            told = names.of_atom(site, other)
            same = array_struct(eqn.invars[kept]).shape == array_struct(eqn.outvars[0]).shape
            neutral = "1" if name in ("mul", "div") else "0"
            if same and told not in ("", neutral) and not (kept == 1 and name in ("div", "rem")):
                sign = _ARITHMETIC[name] if kept == 0 else ""
                yield 9, f"had no {sign}{told}", functools.partial(only, kept)


_LOGIC = {"and": "&", "or": "|"}
_FUNCTION_NAMES = {"integer_pow": "power", "neg": "minus", "logistic": "sigmoid"}


def _other_parts(eqn: core.JaxprEqn) -> Iterator[Change]:
    """The other end of a slice, and the other direction of a sum."""
    params, name = eqn.params, eqn.primitive.name
    if "reverse" in params and name != "scan":
        other = not params["reverse"]
        change = f"had reverse={other}"
        yield 10, change, functools.partial(_with, params={**params, "reverse": other})
    if name == "slice" and params["strides"] is None:
        full = array_struct(eqn.invars[0]).shape
        starts, ends = params["start_indices"], params["limit_indices"]
        for axis, (start, end, size) in enumerate(zip(starts, ends, full, strict=True)):
            for first in {0, size - (end - start)} - {start}:
                last = first + end - start
                change = f"took [{first}:{last}] instead of [{start}:{end}] along dimension {axis}"
                bounds = {
                    "start_indices": (*starts[:axis], first, *starts[axis + 1 :]),
                    "limit_indices": (*ends[:axis], last, *ends[axis + 1 :]),
                }
                yield 10, change, functools.partial(_with, params={**params, **bounds})


#: Operations whose operands aren't exchanged: they run others, or change Refs.
_RUN_OTHERS = ("cond", "scan", "while", "run_state")


def _other_operands(site: Site, names: Names, file: str) -> Iterator[Change]:
    """Another variable of the same shape and dtype in the place of an operand."""
    eqn = site.eqn
    if eqn.primitive.name in _RUN_OTHERS or calls_of_libraries(site, file):
        return
    before = itertools.takewhile(lambda other: other is not eqn, site.jaxpr.eqns)
    known = [*site.jaxpr.invars, *(var for other in before for var in other.outvars)]
    for old in {id(atom): atom for atom in eqn.invars}.values():
        told = names.of_atom(site, old)
        if isinstance(old, core.Literal) or not told or (is_store(eqn) and old is eqn.invars[0]):
            continue
        places = [at for at, atom in enumerate(eqn.invars) if atom is old]
        for new in known:
            name = names.of_atom(site, new)
            if not name or name == told or str(new.aval) != str(old.aval):
                continue
            for some in [places] if len(places) == 1 else [places, *([at] for at in places)]:
                invars = [new if at in some else atom for at, atom in enumerate(eqn.invars)]
                yield 11, f"had {name} instead of {told}", functools.partial(_with, invars=invars)


#: Operations that may lack a factor of an operand.
_OF_PRODUCTS = (
    "swap",
    "add",
    "sub",
    "div",
    "max",
    "exp",
    "reduce_sum",
    "reduce_max",
    "dot_general",
)


def _makers(site: Site) -> dict[int, core.JaxprEqn]:
    """By a variable's id: the equation before this one, in the same jaxpr, that computes it."""
    before = itertools.takewhile(lambda other: other is not site.eqn, site.jaxpr.eqns)
    return {id(var): other for other in before for var in other.outvars}


def _one_more_factor(site: Site, names: Names, file: str) -> Iterator[Change]:
    """A factor of a variable; also an unnamed one of a Ref's old contents in a sum."""
    eqn = site.eqn
    if eqn.primitive.name not in _OF_PRODUCTS or not _is_float(eqn.outvars[0]):
        return
    makers = _makers(site)
    for at, old in enumerate(eqn.invars):
        told, maker = names.of_atom(site, old), makers.get(id(old))
        if is_store(eqn):
            told = "the value" if at == 1 else ""
        if isinstance(old, core.Literal) or not told:
            continue
        is_sum = eqn.primitive.name == "add" and maker and maker.primitive.name == "get"
        for other in makers.values():
            new = other.outvars[0]
            line = line_of(other.source_info, file)
            name = names.of_atom(site, new) or (f"a value of line {line}" if is_sum else "")
            if line and name and name != told and _spreads(new, old):
                shape = array_struct(old).shape
                by = functools.partial(_multiplied, at, new, shape, lax.mul_p)
                yield 12 if is_sum else 14, f"multiplied {told} by {name}", by
                by = functools.partial(_multiplied, at, new, shape, lax.div_p)
                yield 15, f"divided {told} by {name}", by


def _spreads(small: Any, large: Any) -> bool:
    """Whether an array has the other's shape, but for sizes of 1, and its dtype."""
    if not _is_number(small):
        return False
    one, other = array_struct(small), array_struct(large)
    pairs = zip(one.shape, other.shape, strict=False)
    alike = len(one.shape) == len(other.shape) and all(a in (1, b) for a, b in pairs)
    return alike and one.dtype == other.dtype


def _multiplied(
    at: int, factor: core.Var, shape: tuple[int, ...], by: core.Primitive, eqn: core.JaxprEqn
) -> Any:
    """An operation with one operand multiplied by a factor, or divided by it."""
    old = eqn.invars[at]
    product, spread = core.Var(old.aval), core.Var(old.aval)
    dimensions = {"broadcast_dimensions": tuple(range(len(shape))), "shape": shape}
    plain: dict[str, Any] = {"effects": frozenset()}
    return [
        eqn.replace(
            primitive=lax.broadcast_in_dim_p,
            invars=[factor],
            outvars=[spread],
            params={**dimensions, "sharding": None},
            **plain,
        ),
        eqn.replace(primitive=by, invars=[old, spread], outvars=[product], params={}, **plain),
        eqn.replace(invars=[product if n == at else atom for n, atom in enumerate(eqn.invars)]),
    ]


_SIGNS_OF_TERMS = {"+": lax.add_p, "*": lax.mul_p, "-": lax.sub_p, "/": lax.div_p}


def _one_more_term(site: Site, names: Names, kernel: core.Jaxpr) -> Iterator[Change]:
    """The contents of a Ref, added to a stored number or multiplied by it."""
    eqn = site.eqn
    if not is_store(eqn) or not _is_float(eqn.invars[1]):
        return
    value = array_struct(eqn.invars[1])
    for ref in kernel.invars:
        name = names.of_atom(site, ref)
        if not name or not hasattr(ref.aval, "inner_aval") or ref is site.root(eqn.invars[0]):
            continue
        if _alike(ref, eqn.invars[1]) and value.shape:
            for sign, primitive in _SIGNS_OF_TERMS.items():
                by = functools.partial(_with_term, ref, primitive)
                yield 13, f"stored the value {sign} {name}[...]", by


def _with_term(ref: core.Var, primitive: core.Primitive, eqn: core.JaxprEqn) -> Any:
    """A store of a value to which the contents of a Ref are added, or another operation."""
    from pallascope.kernels.jax_internals import NDIndexer, get_p

    target, value, *index = eqn.invars
    read, made = core.Var(value.aval), core.Var(value.aval)
    whole, tree = jax.tree.flatten((NDIndexer.make_trivial_indexer(array_struct(ref).shape),))
    plain: dict[str, Any] = {"effects": frozenset()}
    return [
        eqn.replace(
            primitive=get_p, invars=[ref, *whole], outvars=[read], params={"tree": tree}, **plain
        ),
        eqn.replace(primitive=primitive, invars=[value, read], outvars=[made], params={}, **plain),
        eqn.replace(invars=[target, made, *index]),
    ]


def _other_entries(site: Site, names: Names, kernel: core.Jaxpr, file: str) -> Iterator[Change]:
    """An index or an entry of a table, one more or less; an entry in the place of its index."""
    eqn = site.eqn
    tables = [ref for ref in kernel.invars if _is_table(ref)]
    if eqn.primitive.name == "get" and site.root(eqn.invars[0]) in tables:
        told = names.of_atom(site, site.root(eqn.invars[0]))
        for at, index in enumerate(eqn.invars[1:], 1):
            if is_index(index):
                for sign, primitive in _NEXT.items():
                    by = functools.partial(_with_number, at, primitive, 1)
                    yield 12, f"read {told} at the index {sign} 1", by
    elif eqn.primitive.name in ("add", "sub", "mul", "lt", "le", "gt", "ge", "eq"):
        for at, index in enumerate(eqn.invars):
            name = names.of_atom(site, index)
            if isinstance(index, core.Literal) or not name or not is_index(index):
                continue
            if calls_of_libraries(site, file):
                continue
            for sign, primitive in _NEXT.items():
                by = functools.partial(_with_number, at, primitive, 1)
                yield 12, f"had {name} {sign} 1 instead of {name}", by
            for ref in tables:
                entry = f"{names.of_atom(site, ref)}[{name}]"
                yield 13, f"had {entry} instead of {name}", functools.partial(_with_entry, at, ref)


_NEXT = {"+": lax.add_p, "-": lax.sub_p}


def _is_table(ref: core.Var) -> bool:
    """Whether a Ref holds a row of indices."""
    if not hasattr(ref.aval, "inner_aval"):
        return False
    struct = array_struct(ref)
    return len(struct.shape) == 1 and struct.dtype == np.int32


def is_index(atom: Any) -> bool:
    """Whether a value is a single int32."""
    struct = array_struct(atom)
    return not struct.shape and struct.dtype == np.int32


def _with_number(
    at: int, primitive: core.Primitive, number: int, eqn: core.JaxprEqn
) -> list[core.JaxprEqn]:
    """An operation on an index plus a number, minus it, or times it."""
    aval = eqn.invars[at].aval
    other, literal = core.Var(aval), core.Literal(np.int32(number), aval)
    plain: dict[str, Any] = {"outvars": [other], "params": {}, "effects": frozenset()}
    moved = eqn.replace(primitive=primitive, invars=[eqn.invars[at], literal], **plain)
    return [moved, eqn.replace(invars=[*eqn.invars[:at], other, *eqn.invars[at + 1 :]])]


def _with_entry(at: int, ref: core.Var, eqn: core.JaxprEqn) -> list[core.JaxprEqn]:
    """An operation on a table's entry in the place of its index."""
    from pallascope.kernels.jax_internals import NDIndexer, get_p

    index = eqn.invars[at]
    entry = core.Var(index.aval)
    indexer = NDIndexer((index,), array_struct(ref).shape, (), validate=False)
    flat, tree = jax.tree.flatten((indexer,))
    plain: dict[str, Any] = {"outvars": [entry], "params": {"tree": tree}, "effects": frozenset()}
    read = eqn.replace(primitive=get_p, invars=[ref, *flat], **plain)
    return [read, eqn.replace(invars=[*eqn.invars[:at], entry, *eqn.invars[at + 1 :]])]


_SUMS = {"add": "sum", "sub": "difference", "max": "maximum", "min": "minimum"}
_SCALINGS = {"mul": "multiplied", "div": "divided"}


def _other_parentheses(site: Site, names: Names) -> Iterator[Change]:
    """A factor of one term in the place of one of the whole sum, or the other way round."""
    eqn = site.eqn
    name = eqn.primitive.name
    if name not in (*_SUMS, *_SCALINGS) or not _is_float(eqn.outvars[0]):
        return
    makers = _makers(site)
    for at, operand in enumerate(eqn.invars):
        maker = makers.get(id(operand))
        if maker is None or len(maker.invars) != 2:
            continue
        inner = maker.primitive.name
        if name in _SCALINGS and inner in _SUMS and not (name == "div" and at == 1):
            factor = names.of_atom(site, eqn.invars[1 - at]) or "the factor"
            for kept, term in enumerate(maker.invars):
                if told := names.of_atom(site, term):
                    by = functools.partial(_only_a_term, at, kept, maker)
                    yield 10, f"{_SCALINGS[name]} only {told} by {factor}", by
        elif name in _SUMS and inner in _SCALINGS:
            for scaled in (0, 1) if inner == "mul" else (0,):
                factor = names.of_atom(site, maker.invars[1 - scaled]) or "the factor"
                by = functools.partial(_the_whole_sum, at, scaled, maker)
                yield 10, f"{_SCALINGS[inner]} the whole {_SUMS[name]} by {factor}", by


def _scaling(name: str) -> Callable[[Any, Any], Any]:
    return jnp.multiply if name == "mul" else jnp.divide


def _summing(name: str) -> Callable[[Any, Any], Any]:
    return {"add": jnp.add, "sub": jnp.subtract, "max": jnp.maximum, "min": jnp.minimum}[name]


def _only_a_term(at: int, kept: int, maker: core.JaxprEqn, eqn: core.JaxprEqn) -> Any:
    """c * (a + b) as c * a + b."""
    scale, total = _scaling(eqn.primitive.name), _summing(maker.primitive.name)

    def function(factor: Any, *terms: Any) -> Any:
        scaled = [scale(term, factor) if n == kept else term for n, term in enumerate(terms)]
        return total(*scaled)

    return with_function(function, eqn, [eqn.invars[1 - at], *maker.invars])


def _the_whole_sum(at: int, scaled: int, maker: core.JaxprEqn, eqn: core.JaxprEqn) -> Any:
    """c * a + b as c * (a + b)."""
    scale, total = _scaling(maker.primitive.name), _summing(eqn.primitive.name)

    def function(factor: Any, term: Any, other: Any) -> Any:
        return scale(total(term, other) if at == 0 else total(other, term), factor)

    operands = [maker.invars[1 - scaled], maker.invars[scaled], eqn.invars[1 - at]]
    return with_function(function, eqn, operands)


#: The most numbers that are tried in the place of another.
_MOST_NUMBERS = 12


def _other_numbers(
    site: Site, names: Names, kernel: core.Jaxpr, grid: Sequence[int]
) -> Iterator[Change]:
    """A size of a Ref or of the grid in the place of a number, or as a factor of an index."""
    eqn = site.eqn
    name = eqn.primitive.name
    if name not in ("add", "sub", "mul", "div", "rem", "lt", "le", "gt", "ge", "eq"):
        return
    if not jnp.issubdtype(array_struct(eqn.invars[0]).dtype, jnp.integer):
        return
    shapes = (array_struct(ref).shape for ref in kernel.invars if hasattr(ref.aval, "inner_aval"))
    sizes = dict.fromkeys(size for size in (*grid, *itertools.chain(*shapes)) if size > 1)
    for change, invars in other_literals(eqn, list(itertools.islice(sizes, _MOST_NUMBERS))):
        yield 15, change, functools.partial(_with, invars=invars)
    for at, index in enumerate(eqn.invars):
        if name in ("add", "sub") and is_index(index) and (told := names.of_atom(site, index)):
            for size in itertools.islice(sizes, _MOST_NUMBERS):
                by = functools.partial(_with_number, at, lax.mul_p, size)
                yield 16, f"had {told} * {size} instead of {told}", by


def other_literals(eqn: core.JaxprEqn, sizes: Sequence[int]) -> Iterator[tuple[str, list[Any]]]:
    """These sizes in the place of numbers above 1: in words, and the operands."""
    for at, old in enumerate(eqn.invars):
        if not isinstance(old, core.Literal) or np.ndim(old.val) or old.val < 2:
            continue
        for size in sizes:
            if size != old.val:
                new = core.Literal(np.asarray(size, array_struct(old).dtype), old.aval)
                invars = [*eqn.invars[:at], new, *eqn.invars[at + 1 :]]
                yield f"had {size} instead of {int(old.val)}", invars


def _in_some_steps(site: Site, names: Names, grid: Sequence[int]) -> Iterator[Change]:
    """A term or a factor in the first step of a grid's dimension alone, the last, or not there."""
    eqn = site.eqn
    name = eqn.primitive.name
    if name not in ("add", "sub", "mul", "div") or not _is_float(eqn.outvars[0]):
        return
    for kept, other in enumerate(eqn.invars[::-1]):
        told = names.of_atom(site, other)
        same = array_struct(eqn.invars[kept]).shape == array_struct(eqn.outvars[0]).shape
        if not told or not same or (kept == 1 and name in ("sub", "div")):
            continue
        for axis, size in enumerate(grid):
            if size < 2:
                continue
            for when, step, equal in (
                ("only in the first step", 0, True),
                ("only in the last step", size - 1, True),
                ("in all steps but the first", 0, False),
            ):
                change = f"had {_ARITHMETIC[name]}{told} {when} along dimension {axis} of the grid"
                by = functools.partial(_on_steps, kept, axis, step, equal)
                yield 17, change, by


def _on_steps(
    kept: int, axis: int, step: int, equal: bool, eqn: core.JaxprEqn
) -> list[core.JaxprEqn]:
    """An operation in some steps alone; in the others, one operand in its place."""
    from pallascope.kernels.jax_internals import program_id_p

    number = core.Var(ShapedArray((), np.dtype(np.int32)))
    asked = eqn.replace(
        primitive=program_id_p,
        invars=[],
        outvars=[number],
        params={"axis": axis},
        effects=frozenset(),
    )

    def function(at: Any, *operands: Any) -> Any:
        if (int(at) == step) is equal:
            return eqn.primitive.bind(*operands, **eqn.params)
        return jnp.asarray(operands[kept], array_struct(eqn.outvars[0]).dtype)

    return [asked, *with_function(function, eqn, [number, *eqn.invars])]
