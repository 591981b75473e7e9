"""Names of a kernel's buffers and semaphores, their first access, and views of them.

The strict interpreter knows buffers and semaphores by number. The first access of a kernel's body
to each of its Refs shows which are read before they are written. Accesses through views, such as
`ref.bitcast(dtype)`, become accesses to the part of the Ref that the view shows.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jax.extend import core

from pallascope.kernels.dma_hazards import BufferPart
from pallascope.kernels.edges_of_mosaic import replaced_by, rewritten
from pallascope.kernels.jax_internals import UnsupportedJax
from pallascope.kernels.jaxprs import (
    IN_HBM,
    array_struct,
    changed_inside,
    equations,
    inner_jaxprs,
    memory_space,
    sites,
    used,
)
from pallascope.kernels.manual_dma import ends, parts, ref_of
from pallascope.model import FirstAccess

#: The first numbers that the interpreter gives on each core.
FIRST_BUFFER, FIRST_SEMAPHORE = 100, 2000
#: The name of a buffer that a pipeline allocates.
PIPELINES = "a buffer of a pipeline"


@dataclass(frozen=True, slots=True)
class RefNames:
    """Names by number. `garbage` are the shapes of the kernel's own scratch buffers."""

    buffers: dict[int, str] = field(default_factory=dict)
    semaphores: dict[int, str] = field(default_factory=dict)
    garbage: dict[int, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, kernel: core.Jaxpr, mapping: Any, aliases: Any) -> RefNames:
        """The names of a kernel's operands, in the order in which the interpreter makes them."""
        found = cls()
        names = names_of(kernel, mapping)
        scalars, ins, outs = mapping.num_index_operands, mapping.num_inputs, mapping.num_outputs
        aliased = {result: given - scalars for given, result in aliases}
        number = FIRST_BUFFER
        inputs = {at: number + at for at in range(ins)}
        for at, own in inputs.items():
            found.buffers[own] = names[scalars + at]
        number += ins
        for at in range(outs):
            if (given := aliased.get(at)) is not None:
                found.buffers[inputs[given]] = names[scalars + ins + at]
                continue
            found.buffers[number] = names[scalars + ins + at]
            number += 1
        for at in range(scalars):
            found.buffers[number] = names[at]
            number += 1
        found._own(kernel, names, mapping, number)
        return found

    def _own(self, kernel: core.Jaxpr, names: list[str], mapping: Any, number: int) -> None:
        """Blocks in VMEM, scratch and semaphores."""
        scalars = mapping.num_index_operands
        blocks = [one.transformed_block_aval for one in mapping.block_mappings]
        semaphore = FIRST_SEMAPHORE
        for at, variable in enumerate(kernel.invars[scalars:]):
            aval: Any = blocks[at] if at < len(blocks) else variable.aval
            space, shape = memory_space(aval), tuple(getattr(variable.aval, "shape", ()))
            if _is_semaphore(space):
                self._semaphores(names[scalars + at], semaphore, shape)
                semaphore += math.prod(shape)
            elif space not in IN_HBM:
                self.buffers[number] = names[scalars + at]
                if at >= len(blocks):
                    self.garbage[number] = shape
                number += 1

    def _semaphores(self, name: str, first: int, shape: tuple[int, ...]) -> None:
        for at, index in enumerate(np.ndindex(shape)):
            text = f"[{', '.join(map(str, index))}]" if index else ""
            self.semaphores[first + at] = name + text

    def copy(self) -> RefNames:
        return RefNames(dict(self.buffers), dict(self.semaphores), dict(self.garbage))

    def add(self, variable: Any, name: str, numbers: np.ndarray) -> bool:
        """A run_scoped has allocated this; returns whether it is a buffer."""
        if _is_semaphore(memory_space(variable.aval)):
            self._semaphores(name, int(np.ravel(numbers)[0]), tuple(variable.aval.shape))
            return False
        self.buffers[int(numbers)] = name
        return True

    def part(self, part: BufferPart) -> str:
        """A part of a Ref, in its own indices: "x_slots[1, 0:8]"."""
        name = self.buffers.get(part.buffer, PIPELINES)
        texts = []
        for (start, stop, step), size in zip(part.span, part.shape, strict=True):
            if (start, stop, step) == (0, size, 1) and size > 1:
                texts.append(":")
            elif stop - start == 1:
                texts.append(str(start))
            else:
                texts.append(f"{start}:{stop}" + (f":{step}" if step > 1 else ""))
        while texts and texts[-1] == ":":
            texts.pop()
        if part.elements == math.prod(part.shape):
            return name
        return f"{name}[{', '.join(texts)}]" if texts else name

    def semaphore(self, number: int) -> str:
        """The name of a kernel's semaphore: "sems[1]"."""
        return self.semaphores.get(number, "a semaphore of a pipeline")


def _is_semaphore(space: str) -> bool:
    return space.startswith("semaphore")


def names_of(kernel: core.Jaxpr, mapping: Any = None) -> list[str]:
    """The names of the traced function's arguments; never "".

    An argument without a name, as one of `*refs`, is called "operand 2", or with the GridMapping
    of a pallas_call "scratch_shapes[0]".
    """
    given = getattr(kernel.debug_info, "arg_names", None) or ()
    places = list(_places(mapping))
    names: list[str] = []
    for at in range(len(kernel.invars)):
        if at < len(given) and _was_given(given[at]):
            names.append(str(given[at]))
        else:
            names.append(places[at] if at < len(places) else f"operand {at}")
    return names


def _was_given(name: object) -> bool:
    """Whether a name is the kernel's own: in rewritten kernels, jax's names are like "args[0]"."""
    return bool(name) and not str(name).startswith("args[")


def _places(mapping: Any) -> Iterator[str]:
    """The places of a kernel's arguments in the parameters of its pallas_call."""
    if mapping is None:
        return
    yield from (f"scalar_prefetch[{at}]" for at in range(mapping.num_index_operands))
    yield from (f"in_specs[{at}]" for at in range(mapping.num_inputs))
    yield from (f"out_specs[{at}]" for at in range(mapping.num_outputs))
    yield from (f"scratch_shapes[{at}]" for at in range(mapping.num_scratch_operands))


def scoped_names(kernel: core.Jaxpr) -> dict[int, tuple[core.Jaxpr, tuple[str, ...]]]:
    """The bodies of all run_scoped in a kernel, by id, with the names of their buffers."""
    return {
        id(body): (body, tuple(names_of(body)))
        for eqn in equations(kernel)
        if eqn.primitive.name == "run_scoped"
        for body in inner_jaxprs(eqn)
    }


def buffers_of_scopes(kernel: core.Jaxpr) -> dict[int, list[str]]:
    """The buffers that a kernel's run_scoped allocate, by the id of the equation's source info."""
    found: dict[int, list[str]] = {}
    for eqn in equations(kernel):
        for body in inner_jaxprs(eqn) if eqn.primitive.name == "run_scoped" else ():
            own = zip(names_of(body), body.invars, strict=True)
            names = [name for name, var in own if not _is_semaphore(memory_space(var.aval))]
            # Only a pipeline's own buffers are parts of a structure: "allocations[0].window_ref".
            told = (PIPELINES if "." in name else name for name in names)
            found.setdefault(id(eqn.source_info), []).extend(told)
    return found


_READS = ("get", "masked_load", "load", "addupdate")


def first_accesses(kernel: core.Jaxpr) -> list[FirstAccess]:
    """The first access of a kernel's body to each of its Refs, in program order.

    A write inside a `pl.when` counts as guarded: whether it runs depends on the grid step.
    """
    touches = dict.fromkeys(map(id, kernel.invars), FirstAccess.NOTHING)
    used_in = functools.cache(used)
    for site in sites(kernel):
        eqn, name = site.eqn, site.eqn.primitive.name
        if name == "dma_wait" or inner_jaxprs(eqn):  # the start accesses the memory, not the wait
            continue
        # A store is a swap whose old value is unused.
        reads = name in _READS or (name == "swap" and id(eqn.outvars[0]) in used_in(site.jaxpr))
        source = ref_of(ends(eqn)[0]) if name == "dma_start" else None
        is_guarded = any(around.primitive.name == "cond" for around in site.path)
        write = FirstAccess.GUARDED_WRITE if is_guarded else FirstAccess.WRITE
        for var in eqn.invars:
            if touches.get(ref := id(site.root(var))) is FirstAccess.NOTHING:
                touches[ref] = FirstAccess.READ if reads or var is source else write
    return [touches[id(var)] for var in kernel.invars]


def _stored(contents: jax.Array, transforms: Sequence[Any], value: jax.Array) -> Any:
    """The old values of a part of an array, seen through views, and the array with others there."""
    from pallascope.kernels.jax_internals import state_discharge

    if not transforms:
        return contents, value
    first, *others = transforms
    inner = state_discharge.transform_array(contents, [first])
    old, new = _stored(inner, others, value)
    if hasattr(first, "indices"):
        _, changed = state_discharge.transform_swap_array(contents, [first], new)
        return old, changed
    if new.dtype != contents.dtype:
        new = state_discharge.bitcast(new, contents.dtype)
    return old, new.reshape(contents.shape)


#: pltpu.touch, pltpu.trace_value and pl.delay: they change no value, and have no rule on a CPU.
_WITHOUT_RESULTS = ("add_dependency", "trace_value", "delay")


def _indexed_first(ref: Any, transforms: Sequence[Any]) -> list[Any]:
    """The same part of a Ref, with its leading dimensions indexed before views, if possible.

    Views often leave leading dimensions as they are, so ref.bitcast(dtype).at[slot] sees one slot.
    """
    views = list(itertools.takewhile(lambda one: not hasattr(one, "indices"), transforms))
    if not views or len(views) == len(transforms):
        return list(transforms)
    from pallascope.kernels.jax_internals import NDIndexer

    at, *others = transforms[len(views) :]
    shapes = list(itertools.accumulate(views, _seen, initial=array_struct(ref)))
    same = _shared_dimensions([one.shape for one in shapes])
    if not same or at.int_indexer_shape:
        return list(transforms)
    shape = shapes[0].shape
    rest = NDIndexer.make_trivial_indexer(shape[same:]).indices
    before = dataclasses.replace(at, indices=(*at.indices[:same], *rest), shape=shape)
    kept = before.get_indexer_shape()[: -len(rest)]
    whole = NDIndexer.make_trivial_indexer(kept).indices if kept else ()
    after = dataclasses.replace(
        at, indices=(*whole, *at.indices[same:]), shape=(*kept, *at.shape[same:])
    )
    return [before, *(_of_part(view, kept, same) for view in views), after, *others]


def _seen(array: jax.ShapeDtypeStruct, view: Any) -> jax.ShapeDtypeStruct:
    """An array as a view shows it."""
    from pallascope.kernels.jax_internals import state_discharge

    return jax.eval_shape(lambda contents: state_discharge.transform_array(contents, [view]), array)


def _shared_dimensions(shapes: Sequence[tuple[int, ...]]) -> int:
    """The number of leading dimensions that all shapes have, without the last two of each."""
    columns = zip(*(shape[:-2] for shape in shapes), strict=False)
    return len(list(itertools.takewhile(lambda sizes: len(set(sizes)) == 1, columns)))


def _of_part(view: Any, kept: tuple[int, ...], same: int) -> Any:
    """The view of a part of an array, of which `kept` is left of the first `same` dimensions."""
    if not _is_reshape(view):
        return view
    return dataclasses.replace(view, shape=(*kept, *view.shape[same:]))


def _static(number: Any) -> Any:
    """The value of a literal; a variable and a number as they are."""
    return number.val if isinstance(number, core.Literal) else number


def _is_whole(index: Any, size: int) -> bool:
    """Whether an index takes all elements of a dimension."""
    if not hasattr(index, "size"):
        return False
    return (index.size, index.stride) == (size, 1) and _static(index.start) == 0


def _groups(
    shape: tuple[int, ...], other: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The dimensions of two shapes of one array, in groups with as many elements."""
    left, right = list(shape), list(other)
    while left or right:
        ours, theirs = left[:1], right[:1]
        del left[:1], right[:1]
        while math.prod(ours) != math.prod(theirs) or not ours or not theirs:
            side, rest = (ours, left) if math.prod(ours) < math.prod(theirs) else (theirs, right)
            if not rest:  # only dimensions of one element are left
                side, rest = (ours, left) if left else (theirs, right)
            if not rest:
                break
            side.append(rest.pop(0))
        yield tuple(ours), tuple(theirs)


#: A start or a size: the sum of these products of a factor and a number, or a variable of the body.
_Terms = list[tuple[int, Any]]


def _split(sizes: tuple[int, ...], indices: Sequence[Any]) -> tuple[_Terms, _Terms] | None:
    """The start and the size of a range of a dimension that is seen as dimensions of these sizes.

    None if the elements don't follow each other.
    """
    terms: _Terms = []
    rest = math.prod(sizes)
    for at, (size, index) in enumerate(zip(sizes, indices, strict=True)):
        rest //= size
        if not hasattr(index, "size"):
            terms.append((rest, index))
            continue
        whole = all(map(_is_whole, indices[at + 1 :], sizes[at + 1 :]))
        if index.stride != 1 or not whole:
            return None
        return [*terms, (rest, index.start)], [(rest, index.size)]
    return terms, [(1, 1)]


def _box(
    shape: tuple[int, ...],
    seen: tuple[int, ...],
    indices: Sequence[Any],
    total: Callable[[_Terms], Any],
) -> Any:
    """The indexer of an array for `indices` of the array seen in another shape.

    `total` adds terms. None if these elements are no box of the array.
    """
    from pallascope.kernels.jax_internals import NDIndexer

    made = NDIndexer.make_trivial_indexer(shape)
    box, rest = [], list(indices)
    for ours, theirs in _groups(shape, seen):
        own, rest = rest[: len(theirs)], rest[len(theirs) :]
        whole = made.indices[len(box) : len(box) + len(ours)]
        if all(map(_is_whole, own, theirs)):
            box += whole
        elif len(ours) == len(theirs) == 1:
            box += own
        elif len(ours) == 1 and (found := _split(theirs, own)):
            start, size = map(total, found)
            box.append(dataclasses.replace(whole[0], start=start, size=size))
        else:
            return None
    return dataclasses.replace(made, indices=tuple(box), validate=False)


def _without_reshape(eqn: core.JaxprEqn) -> list[core.JaxprEqn]:
    """A copy through `ref.reshape(shape)`, as a copy of a part of the Ref itself.

    It stays as it is, and the interpreter refuses it, if that isn't such a part.
    """
    try:
        from pallascope.kernels.jax_internals import NDIndexer, mosaic_primitives
    except UnsupportedJax:
        return [eqn]
    before: list[core.JaxprEqn] = []

    def total(terms: _Terms) -> Any:
        known = sum(factor * int(_static(n)) for factor, n in terms if not isinstance(n, core.Var))
        factors = [factor for factor, n in terms if isinstance(n, core.Var)]
        numbers = [n for _, n in terms if isinstance(n, core.Var)]
        if not numbers:
            return known
        start = core.Var(numbers[0].aval)

        def added(_: object, *values: Any) -> Any:
            products = (f * value for f, value in zip(factors, values, strict=True))
            return (known + sum(products)).astype(start.aval.dtype)  # type: ignore[attr-defined]

        before.append(replaced_by(eqn, added, invars=numbers, outvars=[start], params={}))
        return start

    def unshaped(end: Any) -> Any:
        transforms = list(getattr(end, "transforms", ()))
        at = next((n for n, one in enumerate(transforms) if _is_reshape(one)), None)
        if at is None or len(transforms) > at + 2:
            return end
        shape = array_struct(end.ref).shape
        if at:
            shape = tuple(transforms[at - 1].get_indexer_shape())
        seen, after = tuple(transforms[at].shape), transforms[at + 1 :]
        indexer = after[0] if after else NDIndexer.make_trivial_indexer(seen)
        if not all(hasattr(one, "indices") for one in (*transforms[:at], indexer)):
            return end
        box = _box(shape, seen, indexer.indices, total)
        return end if box is None else dataclasses.replace(end, transforms=(*transforms[:at], box))

    flat, tree = mosaic_primitives._dma_flatten(*map(unshaped, parts(eqn)))
    return [*before, eqn.replace(invars=flat, params={**eqn.params, "tree": tree})]


def _is_reshape(transform: Any) -> bool:
    return type(transform).__name__ == "ReshapeTransform"


def through_views(eqn: core.JaxprEqn, _: object) -> Sequence[core.JaxprEqn]:
    """Equations that read or write all that a view shows, in place of one that goes through it.

    Operations for the compiler or a profiler are left out.
    If jax keeps the used parts elsewhere, the equation stays, and the interpreter refuses it.
    """
    if eqn.primitive.name in _WITHOUT_RESULTS and not eqn.outvars:
        return []
    if eqn.primitive.name in ("dma_start", "dma_wait"):
        return _without_reshape(eqn)
    if eqn.primitive.name not in ("get", "swap"):
        return [eqn]
    ref, *values = eqn.invars[: 2 if eqn.primitive.name == "swap" else 1]
    index = eqn.invars[1 + len(values) :]
    transforms = jax.tree.unflatten(eqn.params["tree"], index)
    if all(hasattr(transform, "indices") for transform in transforms):
        return [eqn]
    try:
        from pallascope.kernels.jax_internals import NDIndexer, get_p, state_discharge
    except UnsupportedJax:
        return [eqn]
    transforms = _indexed_first(ref, transforms)
    first = list(itertools.takewhile(lambda one: hasattr(one, "indices"), transforms))
    rest_index, rest_tree = jax.tree.flatten(tuple(transforms[len(first) :]))
    viewed = tuple(first) or (NDIndexer.make_trivial_indexer(array_struct(ref).shape),)
    flat, tree = jax.tree.flatten(viewed)
    aval: Any = ref.aval
    part = aval.inner_aval.update(shape=tuple(viewed[-1].get_indexer_shape()))
    before, after = (core.Var(part) for _ in range(2))

    def seen(_: object, contents: jax.Array, *rest: Any) -> Any:
        value, rest = (rest[0], rest[1:]) if values else (None, rest)
        through = jax.tree.unflatten(rest_tree, rest)
        if value is None:
            return state_discharge.transform_array(contents, through)
        return _stored(contents, through, value)

    whole: dict[str, Any] = {"params": {**eqn.params, "tree": tree}}
    read = eqn.replace(primitive=get_p, invars=[ref, *flat], outvars=[before], **whole)
    results = [*eqn.outvars, after][: 1 + len(values)]
    view = replaced_by(eqn, seen, invars=[before, *values, *rest_index], outvars=results, params={})
    if not values:
        return [read, view]
    return [
        read,
        view,
        eqn.replace(invars=[ref, after, *flat], outvars=[core.Var(after.aval)], **whole),
    ]


def without_views(jaxpr: core.Jaxpr) -> core.Jaxpr:
    """A body whose equations, also inner ones, are those of `through_views`."""

    def replacement(eqn: core.JaxprEqn, made: object) -> Sequence[core.JaxprEqn]:
        return through_views(changed_inside(eqn, without_views), made)

    return rewritten(jaxpr, replacement)
