"""Names of a kernel's buffers and semaphores, their first access, and views of them.

The strict interpreter knows buffers and semaphores by number. The first access of a kernel's body
to each of its Refs shows which are read before they are written. Accesses through views, such as
`ref.bitcast(dtype)`, become accesses to the part of the Ref that the view shows.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
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


#: A copy through views is cut in at most as many.
MOST_PIECES = 64
#: A part of one end of a copy: its first row of the copy and its number of rows.
_Piece = tuple[Any, Any, Any]


class _ReshapedCopy:
    """A copy through `ref.reshape(shape)`, as copies of parts of the Refs themselves."""

    def __init__(self, eqn: core.JaxprEqn) -> None:
        self.before: list[core.JaxprEqn] = []  # compute the parts
        self._eqn = eqn
        self._most: dict[int, int] = {}  # the largest values of variables, by their ids

    def _number(self, function: Callable[..., Any], *numbers: Any) -> Any:
        """`function` of numpy, or jax.numpy, and numbers: a number, or a variable of the body."""
        known = [_static(number) for number in numbers]
        variables = [number for number in known if isinstance(number, core.Var)]
        if not variables:
            return int(function(np, *map(int, known)))
        result = core.Var(variables[0].aval)

        def computed(_: object, *values: Any) -> Any:
            rest = iter(values)
            given = (next(rest) if isinstance(number, core.Var) else number for number in known)
            dtype = result.aval.dtype  # type: ignore[attr-defined]
            return jnp.asarray(function(jnp, *given), dtype)

        self.before.append(
            replaced_by(self._eqn, computed, invars=variables, outvars=[result], params={})
        )
        return result

    def split(self, source: Any, target: Any) -> list[tuple[Any, Any]]:
        """Source and target of each copy. Raises LookupError if they are no such parts."""
        same = source is target or _seen_alike(source, target)
        source, target = self._boxed(source), self._boxed(target)
        for first, second in ((source, target), (target, source)):
            if not _is_reshaped(first):
                continue
            axis, pieces = self._pieces(first, second)
            found: list[tuple[Any, Any]] = []
            for part, offset, size in pieces:
                other = dataclasses.replace(part, ref=second.ref) if same else None
                other = other or self._narrowed(second, axis, offset, size)
                found += self.split(*((part, other) if first is source else (other, part)))
            if len(found) > MOST_PIECES:
                raise LookupError
            return found
        return [(source, target)]

    def _boxed(self, end: Any) -> Any:
        """An end without the view if it is a box of the Ref; else as it is."""
        with contextlib.suppress(LookupError):
            shape, seen, indexer, transforms = _reshaped(end)
            box: list[Any] = []
            rest = list(indexer.indices)
            for ours, theirs in _groups(shape, seen):
                box += self._group(ours, theirs, rest[: len(theirs)])
                del rest[: len(theirs)]
            return _indexed(end, transforms, shape, box)
        return end

    def _group(
        self, ours: tuple[int, ...], theirs: tuple[int, ...], own: Sequence[Any]
    ) -> Sequence[Any]:
        """The indices of dimensions for those of the same elements in another shape.

        Raises LookupError if these elements are no box.
        """
        whole = _trivial(ours).indices
        if all(map(_is_whole, own, theirs)):
            return whole
        if len(ours) == len(theirs) == 1:
            return own
        if len(theirs) == 1 and not hasattr(own[0], "size"):
            return [
                _index(self._number(lambda _, at, rest=rest, size=size: at // rest % size, own[0]))
                for rest, size in zip(_strides(ours), ours, strict=True)
            ]
        if len(ours) > 1:
            raise LookupError
        starts: list[Any] = []
        for at, (rest, index) in enumerate(zip(_strides(theirs), own, strict=True)):
            if not hasattr(index, "size"):
                starts.append((rest, index))
                continue
            if index.stride != 1 or not all(map(_is_whole, own[at + 1 :], theirs[at + 1 :])):
                raise LookupError
            starts.append((rest, index.start))
            size = self._number(lambda _, size, rest=rest: rest * size, index.size)
            break
        else:
            size = 1
        factors = [factor for factor, _ in starts]
        start = self._number(
            lambda _, *at: sum(f * n for f, n in zip(factors, at, strict=True)),
            *(number for _, number in starts),
        )
        return [dataclasses.replace(whole[0], start=start, size=size)]

    def _pieces(self, end: Any, other: Any) -> tuple[int, list[_Piece]]:
        """Parts of an end whose rows cross two dimensions that the view merges.

        The first number is the dimension of the copy that they divide. Raises LookupError.
        """
        shape, seen, indexer, transforms = _reshaped(end)
        before: list[Any] = []
        after: list[Any] = []
        merged: tuple[Any, tuple[int, ...]] | None = None
        rest = list(indexer.indices)
        for ours, theirs in _groups(shape, seen):
            own = rest[: len(theirs)]
            del rest[: len(theirs)]
            crosses = len(theirs) == 1 and len(ours) == 2 and not _is_whole(own[0], theirs[0])
            if merged is None and crosses and getattr(own[0], "stride", 0) == 1:
                merged = own[0], ours
            else:
                (before if merged is None else after).extend(self._group(ours, theirs, own))
        if merged is None:
            raise LookupError
        index, (count, rows) = merged
        axis = sum(hasattr(one, "size") for one in before)
        most = _static(index.size)
        if isinstance(most, core.Var):
            room = _last_indexer(other)[1]
            sizes = [
                n for n, at in zip(room.shape, room.indices, strict=True) if hasattr(at, "size")
            ]
            most = min(self._most.get(id(most), count * rows), sizes[axis])
        number_of_pieces = min((int(most) - 2 + rows) // rows + 1, count)
        pieces: list[_Piece] = []
        for number in range(number_of_pieces):
            row, first, size, offset = (
                self._number(function, index.start, index.size)
                for function in _of_piece(number, rows, number == number_of_pieces - 1)
            )
            if isinstance(size, core.Var):
                self._most[id(size)] = rows
            part = dataclasses.replace(index, start=first, size=size)
            if isinstance(size, core.Var) or size:
                box = [*before, _index(row), part, *after]
                pieces.append((_indexed(end, transforms, shape, box), offset, size))
        return axis, pieces

    def _narrowed(self, end: Any, axis: int, offset: Any, size: Any) -> Any:
        """A part of an end along one dimension of the copy. Raises LookupError."""
        from pallascope.kernels.jax_internals import TransformedRef

        transforms, last = _last_indexer(end)
        slices = [at for at, one in enumerate(last.indices) if hasattr(one, "size")]
        indices, at = list(last.indices), slices[axis]
        if indices[at].stride != 1:
            raise LookupError
        start = self._number(lambda _, one, other: one + other, indices[at].start, offset)
        indices[at] = dataclasses.replace(indices[at], start=start, size=size)
        narrow = dataclasses.replace(last, indices=tuple(indices), validate=False)
        if hasattr(end, "transforms"):
            return dataclasses.replace(end, transforms=(*transforms, narrow))
        return TransformedRef(end, (narrow,))


def _last_indexer(end: Any) -> tuple[tuple[Any, ...], Any]:
    """The other transforms of an end, and its last indexer. Raises LookupError for other views."""
    transforms = tuple(getattr(end, "transforms", ()))
    if transforms and hasattr(transforms[-1], "indices"):
        return transforms[:-1], transforms[-1]
    if not all(hasattr(one, "indices") or _is_reshape(one) for one in transforms):
        raise LookupError
    shape = transforms[-1].shape if transforms else array_struct(ref_of(end)).shape
    return transforms, _trivial(tuple(shape))


def _index(number: Any) -> Any:
    """A number as an equation's input; a variable as it is."""
    if isinstance(number, core.Var):
        return number
    return core.Literal(np.int32(number), ShapedArray((), np.dtype(np.int32)))


def _strides(shape: tuple[int, ...]) -> list[int]:
    """The number of elements after which each index of an array grows by one."""
    return [math.prod(shape[at + 1 :]) for at in range(len(shape))]


def _of_piece(number: int, rows: int, is_last: bool) -> Sequence[Callable[..., Any]]:
    """For a range of elements: the row of piece `number`, its start, size and offset in the range.

    Rows have `rows` elements. They are functions of numpy, the range's start and its size; all are
    zero for an empty piece.
    """

    def row(_: Any, start: Any, size: Any) -> Any:
        return start // rows + number

    def first(xp: Any, start: Any, size: Any) -> Any:
        return xp.maximum(start, row(xp, start, size) * rows)

    def length(xp: Any, start: Any, size: Any) -> Any:
        last = start + size
        if not is_last:  # the last one takes all that is left: more than a row is out of bounds
            last = xp.minimum(last, (row(xp, start, size) + 1) * rows)
        return xp.maximum(last - first(xp, start, size), 0)

    def unless_empty(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda xp, *of: xp.where(length(xp, *of) > 0, function(xp, *of), 0)

    return (
        unless_empty(row),
        unless_empty(lambda xp, *of: first(xp, *of) - row(xp, *of) * rows),
        length,
        unless_empty(lambda xp, *of: first(xp, *of) - of[0]),
    )


def _trivial(shape: tuple[int, ...]) -> Any:
    from pallascope.kernels.jax_internals import NDIndexer

    return NDIndexer.make_trivial_indexer(shape)


def _is_reshaped(end: Any) -> bool:
    return any(map(_is_reshape, getattr(end, "transforms", ())))


def _seen_alike(one: Any, other: Any) -> bool:
    """Whether two ends, as of a wait, are the same part of Refs of the same shape."""
    if not (hasattr(one, "transforms") and hasattr(other, "transforms")):
        return False
    if array_struct(ref_of(one)).shape != array_struct(ref_of(other)).shape:
        return False
    (leaves, tree), (others, another) = map(jax.tree.flatten, (one.transforms, other.transforms))
    return tree == another and all(a is b or a == b for a, b in zip(leaves, others, strict=True))


def _reshaped(end: Any) -> tuple[tuple[int, ...], tuple[int, ...], Any, tuple[Any, ...]]:
    """The shape that a reshape views, the seen shape, its indexer, and the indexers before it.

    Raises LookupError for an end with other views.
    """
    transforms = tuple(getattr(end, "transforms", ()))
    at = next((n for n, one in enumerate(transforms) if _is_reshape(one)), None)
    if at is None or len(transforms) > at + 2:
        raise LookupError
    shape = tuple(transforms[at - 1].get_indexer_shape()) if at else array_struct(end.ref).shape
    seen, after = tuple(transforms[at].shape), transforms[at + 1 :]
    indexer = after[0] if after else _trivial(seen)
    if not all(hasattr(one, "indices") for one in (*transforms[:at], indexer)):
        raise LookupError
    return shape, seen, indexer, transforms[:at]


def _indexed(
    end: Any, transforms: Sequence[Any], shape: tuple[int, ...], box: Sequence[Any]
) -> Any:
    indexer = dataclasses.replace(_trivial(shape), indices=tuple(box), validate=False)
    return dataclasses.replace(end, transforms=(*transforms, indexer))


def _without_reshape(eqn: core.JaxprEqn) -> list[core.JaxprEqn]:
    """A copy through `ref.reshape(shape)`, as copies of parts of the Refs themselves.

    It stays as it is, and the interpreter refuses it, if there are no such parts.
    """
    if not any(map(_is_reshaped, parts(eqn))):
        return [eqn]
    copy = _ReshapedCopy(eqn)
    source, target, *others = parts(eqn)
    try:
        from pallascope.kernels.jax_internals import mosaic_primitives

        pairs = copy.split(source, target)
    except (UnsupportedJax, LookupError):
        return [eqn]
    made: list[core.JaxprEqn] = []
    for pair in pairs:
        flat, tree = mosaic_primitives._dma_flatten(*pair, *others)
        made.append(eqn.replace(invars=flat, params={**eqn.params, "tree": tree}))
    return [*copy.before, *made]


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
