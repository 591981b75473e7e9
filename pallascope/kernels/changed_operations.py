"""Changes of one operation that make a launch right.

A diagnosis that names a line is tested: the launch runs again with one operation changed, as a
beginner would mend it: a store that adds, a comparison with another sign, another dimension of the
grid, another variable. `first_repair` tries all changes, operation by operation on the CPU, and
gives up a change at the first wrong block. If that can't be done, `repairs` lists a few changes
for runs in the strict interpreter.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core

from pallascope.kernels.block_samples import (
    Values,
    run_length,
)
from pallascope.kernels.cpu_runs import LaunchOnCpu, NotTried, Replacement, Spent
from pallascope.kernels.edges_of_mosaic import replaced_by, rewriting
from pallascope.kernels.jaxprs import (
    CALLS,
    Shaped,
    Site,
    array_struct,
    called,
    inner_except_kernels,
    inner_jaxprs,
    primitives,
    sites,
)
from pallascope.kernels.pallas_params import KERNELS, body, grid_mapping, is_pallas_call
from pallascope.kernels.refs import names_of
from pallascope.kernels.source_lines import Source, files_of, line_of, place_of

# ---- repairs ----

#: The most changes of a launch that are tried: each compiles it once.
MOST_REPAIRS = 8
#: The length of all their runs together, in that of the longest run at production size.
MOST_LENGTH = 0.12


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
    found = _Found()
    for kernel in kernels:
        names = set(primitives(body(kernel)))
        waits = any(name.startswith(("dma_", "semaphore_", "while")) for name in names)
        _find(found, list(sites(body(kernel))), _rank(kernel), waits, file)
    length = max(sum(map(run_length, kernels)), MOST_LENGTH / MOST_REPAIRS)
    return list(itertools.islice(found.repairs(), max(1, int(MOST_LENGTH / length))))


def _rank(kernel: core.JaxprEqn) -> int:
    return len(grid_mapping(kernel).grid) if is_pallas_call(kernel) else 0


class _Found:
    """Changes, each with the operations of its line that it may concern."""

    def __init__(self) -> None:
        self._by: dict[tuple[int, int, str], list[tuple[core.JaxprEqn, Replacement]]] = {}

    def add(self, order: int, line: int, change: str, eqn: core.JaxprEqn, by: Replacement) -> None:
        self._by.setdefault((order, line, change), []).append((eqn, by))

    def repairs(self) -> Iterator[Repair]:
        """All changes by their order: of all operations of a line together, then of each."""
        for (_, line, change), every in sorted(self._by.items(), key=lambda each: each[0]):
            different = len({id(eqn) for eqn, _ in every}) == len(every) > 1
            for some in [*([every] if different else []), *([one] for one in every)]:
                yield Repair(change, line, tuple(some))


def _find(found: _Found, every: Sequence[Site], rank: int, waits: bool, file: str) -> None:
    """Add the changes of these operations."""
    dataflow = _Dataflow(
        {id(var): site.eqn for site in every for var in site.eqn.outvars},
        {id(site.eqn.invars[1]): site.eqn for site in every if _is_store(site.eqn)},
    )
    for site, line in _with_lines(every, file):
        for order, change, by in _changes(site.eqn, rank, waits, dataflow):
            found.add(order, line, change, site.eqn, by)


def _with_lines(every: Sequence[Site], file: str) -> Iterator[tuple[Site, int]]:
    """The operations with a line of `file`, and no other: a function may be traced once only."""
    lines: dict[int, set[int]] = {}
    for site in every:
        lines.setdefault(id(site.eqn), set()).add(_line(site, file))
    for site in every:
        line, *others = lines[id(site.eqn)]
        if line and not others:
            yield site, line


def _line(site: Site, file: str) -> int:
    """The line of an equation; of the call, if it is in a function of jax.numpy, which is traced
    once for all calls."""
    calls = _calls_of_libraries(site, file)
    return line_of((calls[0] if calls else site.eqn).source_info, file)


def _calls_of_libraries(site: Site, file: str) -> list[core.JaxprEqn]:
    """The calls around an equation, except those of functions of `file`."""
    around = [(eqn, called(eqn)) for eqn in site.path if eqn.primitive.name in CALLS]
    return [eqn for eqn, inner in around if inner is None or not _is_of(inner, file)]


def _is_of(function: Any, file: str) -> bool:
    """Whether a traced function is one of `file`."""
    info = getattr(function, "jaxpr", function).debug_info
    return f" at {file}:" in f" {getattr(info, 'func_src_info', '') or ''}"


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
            for order, other in zip((2, 8, 8), _OTHER_SIGNS[name], strict=False):
                if other != "eq" or not array_struct(eqn.outvars[0]).shape:
                    change = f"had {_SIGNS[other]} instead of {_SIGNS[name]}"
                    yield order, change, functools.partial(_with, primitive=_COMPARE[other])
        case "jit" | "pjit" if (name := eqn.params["name"]) in _QUOTIENTS and not waits:
            signs, function = _QUOTIENTS[name]
            yield 4, f"had {signs}", functools.partial(_with_function, function)
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


def _with_function(function: Callable[..., jax.Array], eqn: core.JaxprEqn) -> list[core.JaxprEqn]:
    return [replaced_by(eqn, lambda _, *operands: [function(*operands)], params={})]


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


# ---- many changes, operation by operation ----


def first_repair(
    closed: core.ClosedJaxpr,
    inputs: Sequence[Values],
    expected: Sequence[Values],
    is_right: Callable[[Values, Values], bool],
    source: Source,
    change: tuple[str, int] | None = None,
) -> tuple[Repair, list[Values]] | None:
    """The first change that makes all results right, and these results; None if there is none.

    If there is a `change`, with its line, only that one is tried. Raises NotTried for a launch that
    can't be computed.
    """
    trial = LaunchOnCpu(closed, inputs, expected, is_right)
    try:
        if change is None and trial.results({}) is not None:
            return None
    except NotTried:
        raise
    except Exception as error:  # of jax or numpy: only the interpreter has an operation
        raise NotTried(f"{type(error).__name__} in an operation") from error
    with contextlib.suppress(Spent):
        for repair in _all_changes(closed, source):
            if change not in (None, (repair.change, repair.line)):
                continue
            try:
                results = trial.results({id(old): new for old, new in repair.by})
            except Spent:
                raise
            except Exception:  # of jax or numpy: the changed program makes no sense
                continue
            if results is not None:
                return repair, results
    return None


def _all_changes(closed: core.ClosedJaxpr, source: Source) -> Iterator[Repair]:
    """Changes in kernels and around them, the likeliest first."""
    found, file = _Found(), source.file
    around = list(sites(closed.jaxpr, inner_except_kernels))
    parts = [(around, closed.jaxpr, 0)]
    parts += [
        (list(sites(body(site.eqn))), body(site.eqn), _rank(site.eqn))
        for site in around
        if site.eqn.primitive.name in KERNELS
    ]
    for every, jaxpr, rank in parts:
        every = [site for site in every if _is_written(site, file)]
        _find(found, every, rank, False, file)
        names = _Names.of(every, jaxpr, source)
        for site, line in _with_lines(every, file):
            for order, change, by in (
                *_left_out(site, names),
                *_other_parts(site.eqn),
                *_other_operands(site, names, file),
                *_one_more_factor(site, names, file),
                *_one_more_term(site, names, jaxpr),
                *_other_entries(site, names, jaxpr, file),
            ):
                found.add(order, line, change, site.eqn, by)
    return (one for one in found.repairs() if one.line in source.asked or not source.asked)


def _is_written(site: Site, file: str) -> bool:
    """Whether an equation stands for an operation in the file, not for one inside of jax.numpy."""
    inside = [str(eqn.params.get("name")) for eqn in _calls_of_libraries(site, file)]
    if inside not in ([], ["_where"]):
        return False
    if site.eqn.primitive.name not in ("add", "lt", "select_n"):
        return True
    # An array as an index: x[i] also means x[i + size].
    indexing = os.path.join("numpy", "indexing.py")
    frames = itertools.takewhile(lambda name: name != file, files_of(site.eqn.source_info))
    return not any(name.endswith(indexing) for name in frames)


#: The beginnings of names that aren't in the file: a launch's inputs, and Refs without a name.
_UNNAMED = ("arrays[", "operand ")


@dataclass(frozen=True, slots=True)
class _Names:
    """The names in the source of a jaxpr's values, by the ids of their variables."""

    by: Mapping[int, str]

    @classmethod
    def of(cls, every: Sequence[Site], jaxpr: core.Jaxpr, source: Source) -> _Names:
        found = {id(var): name for var, name in zip(jaxpr.invars, names_of(jaxpr), strict=True)}
        last: dict[tuple[int, str], core.Var] = {}
        for site in every:
            eqn = site.eqn
            if eqn.primitive.name == "run_scoped":
                (inner,) = inner_jaxprs(eqn)
                found |= {id(v): n for v, n in zip(inner.invars, names_of(inner), strict=True)}
            if _calls_of_libraries(site, source.file) or len(eqn.outvars) != 1:
                continue
            if eqn.primitive.name == "get" and (ref := found.get(id(site.root(eqn.invars[0])))):
                found[id(eqn.outvars[0])] = f"{ref}[...]"
            if name := source.assigned(place_of(eqn.source_info, source.file)):
                last[id(site.jaxpr), name] = eqn.outvars[0]
        found |= {id(var): name for (_, name), var in last.items()}
        return cls({at: name for at, name in found.items() if not name.startswith(_UNNAMED)})

    def of_atom(self, site: Site, atom: Any) -> str:
        """The name of an operand; "" if it has none."""
        if isinstance(atom, core.Literal):
            return str(atom.val) if np.ndim(atom.val) == 0 else ""
        return self.by.get(id(atom)) or self.by.get(id(site.root(atom)), "")


_ARITHMETIC = {"add": "+ ", "sub": "- ", "mul": "* ", "div": "/ ", "rem": "% "}
_FUNCTIONS = (
    *("exp", "exp2", "log", "tanh", "sqrt", "rsqrt", "abs", "integer_pow", "neg", "logistic"),
)


def _left_out(site: Site, names: _Names) -> Iterator[tuple[int, str, Replacement]]:
    """One operand in the place of an operation."""
    eqn = site.eqn
    name = eqn.primitive.name
    if name in _FUNCTIONS:
        yield 9, f"had no {_FUNCTION_NAMES.get(name, name)}", functools.partial(_only, 0)
    elif name in _LOGIC and _alike(*eqn.invars):
        for kept, side in enumerate(("left", "right")):
            yield 9, f"had only the {side} side of {_LOGIC[name]}", functools.partial(_only, kept)
    elif name in _ARITHMETIC and len(eqn.invars) == 2:
        for kept, other in enumerate(eqn.invars[::-1]):
            told = names.of_atom(site, other)
            same = array_struct(eqn.invars[kept]).shape == array_struct(eqn.outvars[0]).shape
            if same and told and not (kept == 1 and name in ("div", "rem")):
                sign = _ARITHMETIC[name] if kept == 0 else ""
                yield 9, f"had no {sign}{told}", functools.partial(_only, kept)


_LOGIC = {"and": "&", "or": "|"}
_FUNCTION_NAMES = {"integer_pow": "power", "neg": "minus", "logistic": "sigmoid"}


def _other_parts(eqn: core.JaxprEqn) -> Iterator[tuple[int, str, Replacement]]:
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


def _other_operands(site: Site, names: _Names, file: str) -> Iterator[tuple[int, str, Replacement]]:
    """Another variable of the same shape and dtype in the place of an operand."""
    eqn = site.eqn
    if eqn.primitive.name in _RUN_OTHERS or _calls_of_libraries(site, file):
        return
    before = itertools.takewhile(lambda other: other is not eqn, site.jaxpr.eqns)
    known = [*site.jaxpr.invars, *(var for other in before for var in other.outvars)]
    for old in {id(atom): atom for atom in eqn.invars}.values():
        told = names.of_atom(site, old)
        if isinstance(old, core.Literal) or not told or (_is_store(eqn) and old is eqn.invars[0]):
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
_OF_PRODUCTS = ("add", "sub", "div", "max", "exp", "reduce_sum", "reduce_max", "dot_general")


def _one_more_factor(
    site: Site, names: _Names, file: str
) -> Iterator[tuple[int, str, Replacement]]:
    """A factor of a variable; also an unnamed one of a Ref's old contents in a sum."""
    eqn = site.eqn
    if eqn.primitive.name not in _OF_PRODUCTS or not _is_float(eqn.outvars[0]):
        return
    before = itertools.takewhile(lambda other: other is not eqn, site.jaxpr.eqns)
    makers = {id(var): other for other in before for var in other.outvars}
    for at, old in enumerate(eqn.invars):
        told, maker = names.of_atom(site, old), makers.get(id(old))
        if isinstance(old, core.Literal) or not told:
            continue
        is_sum = eqn.primitive.name == "add" and maker and maker.primitive.name == "get"
        for other in makers.values():
            new = other.outvars[0]
            line = line_of(other.source_info, file)
            name = names.of_atom(site, new) or (f"a value of line {line}" if is_sum else "")
            if line and name and name != told and _spreads(new, old):
                by = functools.partial(_multiplied, at, new, array_struct(old).shape)
                yield 12 if is_sum else 14, f"multiplied {told} by {name}", by


def _spreads(small: Any, large: Any) -> bool:
    """Whether an array has the other's shape, but for sizes of 1, and its dtype."""
    if not _is_number(small):
        return False
    one, other = array_struct(small), array_struct(large)
    pairs = zip(one.shape, other.shape, strict=False)
    alike = len(one.shape) == len(other.shape) and all(a in (1, b) for a, b in pairs)
    return alike and one.dtype == other.dtype


def _multiplied(at: int, factor: core.Var, shape: tuple[int, ...], eqn: core.JaxprEqn) -> Any:
    """A sum in which one operand is multiplied by a factor."""
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
        eqn.replace(
            primitive=lax.mul_p, invars=[old, spread], outvars=[product], params={}, **plain
        ),
        eqn.replace(invars=[product if n == at else atom for n, atom in enumerate(eqn.invars)]),
    ]


_SIGNS_OF_TERMS = {"+": lax.add_p, "*": lax.mul_p, "-": lax.sub_p, "/": lax.div_p}


def _one_more_term(
    site: Site, names: _Names, kernel: core.Jaxpr
) -> Iterator[tuple[int, str, Replacement]]:
    """The contents of a Ref, added to a stored number or multiplied by it."""
    eqn = site.eqn
    if not _is_store(eqn) or not _is_float(eqn.invars[1]):
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


def _other_entries(
    site: Site, names: _Names, kernel: core.Jaxpr, file: str
) -> Iterator[tuple[int, str, Replacement]]:
    """An index or an entry of a table, one more or less; an entry in the place of its index."""
    eqn = site.eqn
    tables = [ref for ref in kernel.invars if _is_table(ref)]
    if eqn.primitive.name == "get" and site.root(eqn.invars[0]) in tables:
        told = names.of_atom(site, site.root(eqn.invars[0]))
        for at, index in enumerate(eqn.invars[1:], 1):
            if _is_index(index):
                for sign, primitive in _NEXT.items():
                    by = functools.partial(_with_next, at, primitive)
                    yield 12, f"read {told} at the index {sign} 1", by
    elif eqn.primitive.name in ("add", "sub", "mul", "lt", "le", "gt", "ge", "eq"):
        for at, index in enumerate(eqn.invars):
            name = names.of_atom(site, index)
            if isinstance(index, core.Literal) or not name or not _is_index(index):
                continue
            if _calls_of_libraries(site, file):
                continue
            for sign, primitive in _NEXT.items():
                by = functools.partial(_with_next, at, primitive)
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


def _is_index(atom: Any) -> bool:
    struct = array_struct(atom)
    return not struct.shape and struct.dtype == np.int32


def _with_next(at: int, primitive: core.Primitive, eqn: core.JaxprEqn) -> list[core.JaxprEqn]:
    """An operation on the number after, or before, an index."""
    aval = eqn.invars[at].aval
    other, one = core.Var(aval), core.Literal(np.int32(1), aval)
    plain: dict[str, Any] = {"outvars": [other], "params": {}, "effects": frozenset()}
    moved = eqn.replace(primitive=primitive, invars=[eqn.invars[at], one], **plain)
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
