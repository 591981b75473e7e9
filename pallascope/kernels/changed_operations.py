"""Changes of one operation that make a launch right.

A diagnosis that names a line is tested: the launch runs again with one operation changed, as a
beginner would mend it: a store that adds, a comparison with another sign, another dimension of the
grid, another variable. `first_repair` tries all changes, operation by operation on the CPU, and
gives up a change at the first wrong block. If that can't be done, `repairs` lists a few changes
for runs in the strict interpreter.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from pallascope.kernels.block_samples import (
    Values,
    run_length,
)
from pallascope.kernels.cpu_runs import LaunchOnCpu, NotTried, OutOfBounds, Replacement, Spent
from pallascope.kernels.edges_of_mosaic import rewriting
from pallascope.kernels.jaxprs import (
    Site,
    array_struct,
    inner_except_kernels,
    inner_jaxprs,
    primitives,
    sites,
)
from pallascope.kernels.pallas_params import KERNELS, body, grid_mapping, is_pallas_call
from pallascope.kernels.possible_changes import (
    Dataflow,
    Names,
    Together,
    calls_of_libraries,
    further_changes,
    is_index,
    is_store,
    only,
    other_literals,
    simple_changes,
    with_function,
)
from pallascope.kernels.source_lines import Source, files_of, line_of

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
        _find(found, list(sites(body(kernel))), len(_grid(kernel)), waits, file)
    length = max(sum(map(run_length, kernels)), MOST_LENGTH / MOST_REPAIRS)
    return list(itertools.islice(found.repairs(), max(1, int(MOST_LENGTH / length))))


def _grid(kernel: core.JaxprEqn) -> tuple[int, ...]:
    """The sizes of a kernel's grid; 0 for a computed one."""
    sizes = grid_mapping(kernel).grid if is_pallas_call(kernel) else ()
    return tuple(size if isinstance(size, int) else 0 for size in sizes)


class _Found:
    """Changes, each with the operations of its line that it may concern."""

    def __init__(self) -> None:
        self._by: dict[tuple[int, int, str], list[Together]] = {}

    def add(self, order: int, line: int, change: str, together: Together) -> None:
        self._by.setdefault((order, line, change), []).append(together)

    def repairs(self) -> Iterator[Repair]:
        """All changes by their order: of all operations of a line together, later of each."""
        single: list[Repair] = []
        for (_, line, change), every in sorted(self._by.items(), key=lambda each: each[0]):
            all_of_line = tuple(itertools.chain(*every))
            alone = [Repair(change, line, together) for together in every]
            if len({id(eqn) for eqn, _ in all_of_line}) == len(all_of_line):
                yield Repair(change, line, all_of_line)
                single += alone if len(alone) > 1 else []
            else:  # several changes of one operation with the same words
                yield from alone
        yield from single


def _find(found: _Found, every: Sequence[Site], rank: int, waits: bool, file: str) -> None:
    """Add the changes of these operations."""
    dataflow = Dataflow(
        {id(var): site.eqn for site in every for var in site.eqn.outvars},
        {id(site.eqn.invars[1]): site.eqn for site in every if is_store(site.eqn)},
    )
    for site, line in _with_lines(every, file):
        for order, change, by in simple_changes(site.eqn, rank, waits, dataflow):
            found.add(order, line, change, ((site.eqn, by),))


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
    calls = calls_of_libraries(site, file)
    return line_of((calls[0] if calls else site.eqn).source_info, file)


# ---- many changes, operation by operation ----


def first_repair(
    closed: core.ClosedJaxpr,
    inputs: Sequence[Values],
    expected: Sequence[Values],
    are_right: Sequence[Callable[[Values, Values], bool]],
    source: Source,
    change: tuple[str, int] | None = None,
) -> tuple[Repair, list[Values]] | None:
    """The first change that makes all results right, and these results; None if there is none.

    `are_right` compare results, each more strictly than the one before: the first that finds fault
    with the launch as it is judges the changes. If there is a `change`, with its line, only that
    one is tried. Raises NotTried for a launch that can't be computed.
    """
    trial = LaunchOnCpu(closed, inputs, expected, are_right[0])
    try:
        stricter = iter(are_right[1:])
        while change is None and trial.results({}) is not None:
            if (is_right := next(stricter, None)) is None:
                return None
            trial.is_right = is_right
    except OutOfBounds:
        pass
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
    parts: list[tuple[list[Site], core.Jaxpr, Sequence[int]]] = [(around, closed.jaxpr, ())]
    parts += [
        (list(sites(body(site.eqn))), body(site.eqn), _grid(site.eqn))
        for site in around
        if site.eqn.primitive.name in KERNELS
    ]
    for every, jaxpr, grid in parts:
        every = [site for site in every if _is_written(site, file)]
        _find(found, every, len(grid), False, file)
        names = Names.of(every, jaxpr, source)
        for site, line in _with_lines(every, file):
            for order, change, by in further_changes(site, names, jaxpr, file, grid):
                found.add(order, line, change, ((site.eqn, by),))
        for change, line, together in _other_dimensions(list(_with_lines(every, file))):
            found.add(4, line, change, together)
        for change, line, together in _exchanged(list(_with_lines(every, file)), names):
            found.add(12, line, change, together)
    for site in around:
        if is_pallas_call(site.eqn):
            for change, line, together in _other_index_maps(site.eqn, file):
                found.add(8, line, change, together)
    return (one for one in found.repairs() if one.line in source.asked or not source.asked)


def _is_written(site: Site, file: str) -> bool:
    """Whether an equation stands for an operation in the file, not for one inside of jax.numpy."""
    inside = [str(eqn.params.get("name")) for eqn in calls_of_libraries(site, file)]
    if inside not in ([], ["_where"]):
        return False
    if site.eqn.primitive.name not in ("add", "lt", "select_n"):
        return True
    # An array as an index: x[i] also means x[i + size].
    indexing = os.path.join("numpy", "indexing.py")
    frames = itertools.takewhile(lambda name: name != file, files_of(site.eqn.source_info))
    return not any(name.endswith(indexing) for name in frames)


# ---- reductions along other dimensions ----

_REDUCTIONS = {"reduce_sum": jnp.sum, "reduce_max": jnp.max, "reduce_min": jnp.min, "_var": jnp.var}
_RESHAPING = ("broadcast_in_dim", "reshape", "squeeze", "expand_dims")
_BY_ELEMENT = (
    *("add", "sub", "mul", "div", "max", "min", "exp", "exp2", "log", "sqrt", "rsqrt", "neg"),
    *("abs", "tanh", "square", "integer_pow", "logistic", "convert_element_type"),
)


def _other_dimensions(every: Sequence[tuple[Site, int]]) -> Iterator[tuple[str, int, Together]]:
    """Reductions along other dimensions: in words, the line, the equations that change.

    First all reductions along the same dimensions together, then each: a kernel that takes the
    maximum of the wrong dimension adds along it, too.
    """
    groups: dict[tuple[Any, ...], list[tuple[Site, int]]] = {}
    for site, line in every:
        if _reduction(site.eqn) in _REDUCTIONS and (axes := _axes(site.eqn)):
            rank = len(array_struct(site.eqn.invars[0]).shape)
            groups.setdefault((id(site.jaxpr), rank, axes), []).append((site, line))
    for (_, rank, axes), members in groups.items():
        for some in [*([members] if len(members) > 1 else []), *([one] for one in members)]:
            for others in {*((axis,) for axis in range(rank)), tuple(range(rank))} - {axes}:
                if together := _along(others, [site for site, _ in some]):
                    first, *rest = dict.fromkeys(line for _, line in some)
                    too = f", and line {' and '.join(map(str, rest))} too" if rest else ""
                    change = f"reduced along {_told(others, rank)} instead of {_told(axes, rank)}"
                    yield f"{change}{too}", first, together


def _told(axes: Sequence[int], rank: int) -> str:
    numbers = " and ".join(map(str, axes))
    if len(axes) == rank:
        return "all dimensions"
    return f"dimension{'s' if len(axes) > 1 else ''} {numbers}"


def _reduction(eqn: core.JaxprEqn) -> str:
    name = eqn.primitive.name
    return str(eqn.params["name"]) if name in ("jit", "pjit") else name


def _axes(eqn: core.JaxprEqn) -> tuple[int, ...]:
    """The dimensions of a reduction, or of the first one in a function of jax.numpy."""
    if "axes" in eqn.params:
        return tuple(eqn.params["axes"])
    inner = itertools.chain(*map(sites, inner_jaxprs(eqn)))
    return next((_axes(site.eqn) for site in inner if "axes" in site.eqn.params), ())


def _along(axes: tuple[int, ...], reductions: Sequence[Site]) -> Together:
    """These reductions along other dimensions; () if something needs the shape of a result.

    Each result has the shape of its operand, as do all values that are computed from it, until one
    has that shape anyway.
    """
    first = reductions[0]
    shape = array_struct(first.eqn.invars[0]).shape
    seeds = {id(site.eqn) for site in reductions}
    before, after = (math.prod(shape[axis] for axis in some) for some in (_axes(first.eqn), axes))
    found: list[tuple[core.JaxprEqn, Replacement]] = []
    spread: set[int] = set()
    for eqn, *_ in sites(first.jaxpr, inner=lambda _: ()):
        name, result = eqn.primitive.name, array_struct(eqn.outvars[0]) if eqn.outvars else None
        if id(eqn) in seeds:
            if array_struct(eqn.invars[0]).shape != shape:
                return ()
            by = functools.partial(_reduced, _REDUCTIONS[_reduction(eqn)], axes)
            found.append((eqn, functools.partial(with_function, by)))
        elif not any(id(atom) in spread for atom in eqn.invars):
            continue
        elif name in _RESHAPING:
            found.append((eqn, functools.partial(only, 0)))
        elif name not in _BY_ELEMENT or not all(_fits(atom, spread, shape) for atom in eqn.invars):
            return ()
        else:
            invars = [_count(atom, before, after) if name == "div" else atom for atom in eqn.invars]
            found.append((eqn, functools.partial(_spread_out, invars)))
        if result is not None and (result.shape != shape or id(eqn) in seeds):
            spread.add(id(eqn.outvars[0]))
    return () if any(id(atom) in spread for atom in first.jaxpr.outvars) else tuple(found)


def _fits(atom: Any, spread: set[int], shape: tuple[int, ...]) -> bool:
    return id(atom) in spread or array_struct(atom).shape in ((), shape)


def _count(atom: Any, before: int, after: int) -> Any:
    """The number of elements of a reduction, in place of that of the former one."""
    if isinstance(atom, core.Literal) and np.ndim(atom.val) == 0 and atom.val == before:
        return core.Literal(np.asarray(after, array_struct(atom).dtype), atom.aval)
    return atom


def _reduced(
    function: Callable[..., jax.Array], axes: tuple[int, ...], x: jax.Array, *_: object
) -> jax.Array:
    return jnp.broadcast_to(function(x, axis=axes, keepdims=True), jnp.shape(x))


def _spread_out(invars: Sequence[Any], eqn: core.JaxprEqn) -> list[core.JaxprEqn]:
    """An operation on elements whose operands get the same shape."""

    def function(*operands: Any) -> Any:
        return eqn.primitive.bind(*jnp.broadcast_arrays(*operands), **eqn.params)

    return with_function(function, eqn, invars)


# ---- two variables ----

#: The most pairs of variables of a kernel that are exchanged.
_MOST_PAIRS = 24


def _exchanged(
    every: Sequence[tuple[Site, int]], names: Names
) -> Iterator[tuple[str, int, Together]]:
    """Two variables exchanged wherever both are known: in words, the first line, the equations."""
    made: dict[tuple[int, str], list[tuple[Any, str, int]]] = {}
    for place, (site, _) in enumerate(every):
        for var in site.eqn.outvars:
            if name := names.by.get(id(var)):
                made.setdefault((id(site.jaxpr), str(var.aval)), []).append((var, name, place))
    pairs = (
        (first, second)
        for group in made.values()
        for first, second in itertools.combinations(group, 2)
        if first[1] != second[1]
    )
    for (one, name, _), (other, second, place) in itertools.islice(pairs, _MOST_PAIRS):
        by = {id(one): other, id(other): one}
        using = [
            (site.eqn, line)
            for site, line in every[place + 1 :]
            if any(id(atom) in by for atom in site.eqn.invars)
        ]
        if using:
            together = tuple((eqn, functools.partial(_with_others, by)) for eqn, _ in using)
            yield f"had {name} and {second} exchanged", min(line for _, line in using), together


def _with_others(by: Mapping[int, Any], eqn: core.JaxprEqn) -> list[core.JaxprEqn]:
    return [eqn.replace(invars=[by.get(id(atom), atom) for atom in eqn.invars])]


# ---- index maps ----


def _other_index_maps(kernel: core.JaxprEqn, file: str) -> Iterator[tuple[str, int, Together]]:
    """Index maps of `file` with another result: in words, the line, the launch that changes.

    A result is another grid index or 0, or two results are exchanged. Computed results stay.
    """
    mapping = grid_mapping(kernel)
    for at, block in enumerate(mapping.block_mappings):
        closed = block.index_map_jaxpr
        line = _line_of_function(closed.jaxpr.debug_info, file)
        if not line:
            continue
        names = {
            id(var): name
            for var, name in zip(closed.jaxpr.invars, _argument_names(closed.jaxpr), strict=False)
            if is_index(var) and name and not name.startswith("_")
        }
        told = [_index_name(atom, names) for atom in closed.jaxpr.outvars]
        for results in _other_results(closed.jaxpr, names):
            new = f"({', '.join(_index_name(atom, names) for atom in results)})"
            changed = closed.jaxpr.replace(outvars=results)
            by = functools.partial(_with_index_map, at, changed)
            yield f"returned {new} instead of ({', '.join(told)})", line, ((kernel, by),)
        for change, changed in _other_numbers_of_map(closed.jaxpr, _grid(kernel)):
            yield change, line, ((kernel, functools.partial(_with_index_map, at, changed)),)


def _line_of_function(info: Any, file: str) -> int:
    """The line of a traced function in `file`; 0 if it is elsewhere."""
    _, found, line = str(getattr(info, "func_src_info", "")).rpartition(f" at {file}:")
    return int(line) if found and line.isdecimal() else 0


def _argument_names(index_map: core.Jaxpr) -> Sequence[str]:
    return [str(name) for name in getattr(index_map.debug_info, "arg_names", None) or ()]


def _index_name(atom: Any, names: Mapping[int, str]) -> str:
    return str(int(atom.val)) if isinstance(atom, core.Literal) else names.get(id(atom), "…")


def _other_results(index_map: core.Jaxpr, names: Mapping[int, str]) -> Iterator[list[Any]]:
    own = list(index_map.outvars)
    for first, second in itertools.combinations(range(len(own)), 2):
        if _index_name(own[first], names) != _index_name(own[second], names):
            changed = list(own)
            changed[first], changed[second] = own[second], own[first]
            yield changed
    indices = [var for var in index_map.invars if id(var) in names]
    for at in (n for n, atom in enumerate(own) if _index_name(atom, names) != "…"):
        zero = core.Literal(np.int32(0), own[at].aval)
        for new in [*indices, zero]:
            if _index_name(new, names) != _index_name(own[at], names):
                yield [new if n == at else atom for n, atom in enumerate(own)]


def _other_numbers_of_map(
    index_map: core.Jaxpr, grid: Sequence[int]
) -> Iterator[tuple[str, core.Jaxpr]]:
    """A size of the grid in the place of a number that an index map uses."""
    eqns = [site.eqn for site in sites(index_map, inner=lambda _: ())]
    for place, eqn in enumerate(eqns):
        for change, invars in other_literals(eqn, [size for size in grid if size]):
            others = [*eqns[:place], eqn.replace(invars=invars), *eqns[place + 1 :]]
            yield change, index_map.replace(eqns=others)


def _with_index_map(at: int, index_map: core.Jaxpr, kernel: core.JaxprEqn) -> list[core.JaxprEqn]:
    """A launch with another index map."""
    mapping: Any = grid_mapping(kernel)
    blocks = list(mapping.block_mappings)
    closed = blocks[at].index_map_jaxpr
    changed = closed.replace(jaxpr=index_map)
    blocks[at] = dataclasses.replace(blocks[at], index_map_jaxpr=changed)
    changed = dataclasses.replace(mapping, block_mappings=tuple(blocks))
    return [kernel.replace(params={**kernel.params, "grid_mapping": changed})]
