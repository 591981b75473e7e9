"""From a function to what it launches: the only module that touches JAX's internals.

Written against jax 0.10.2 and 0.12.0.1. Where an internal has moved, UnsupportedJax names those.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import jax
import numpy as np
from jax.experimental.pallas import tpu as pltpu

from grader.model import ArrayType, KernelCall, Mode, Operand, Role, Touch, Trace, Walk

TESTED = "0.10.2 and 0.12.0.1"
KERNELS = ("pallas_call", "core_map", "mpmd_map")
CALLBACKS = ("pure_callback", "io_callback")
_WRAPPERS = ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call")
_READS = ("get", "masked_load", "load", "addupdate")
_SUMS = ("reduce_sum", "reduce_prod", "cumsum", "cumprod", "cumlogsumexp")


class UnsupportedJax(RuntimeError):
    """This version of jax keeps a needed internal elsewhere."""

    def __init__(self, what: str) -> None:
        super().__init__(f"jax {jax.__version__} has moved {what}; these work: {TESTED}")


# ---- running ----


@contextlib.contextmanager
def running(mode: Mode, seed: int, unwritten: Literal["nan", "zero"] = "nan") -> Iterator[None]:
    """Run every kernel traced in this context in `mode`; katas never say `interpret=`.

    Strict is the TPU interpreter at its least forgiving. `seed` shuffles the order in which the
    steps of "parallel" grid dimensions run; `unwritten` ("nan" or "zero") is what memory holds that
    nothing has written. Leaves no interpreter state behind, also after an
    exception.
    """
    if mode is Mode.COMPILED:
        yield
        return
    strict = pltpu.InterpretParams(
        num_cores_or_threads=2,
        detect_races=True,
        uninitialized_memory=unwritten,
        out_of_bounds_reads="raise",
        dma_execution_mode="on_wait",
        random_seed=seed,
    )
    # The context's value replaces `interpret=`, for which True asks for the plain interpreter.
    params: Any = strict if mode is Mode.STRICT else True
    try:
        with pltpu.force_tpu_interpret_mode(params):
            yield
    except BaseException:
        _reset()
        raise


def _reset() -> None:
    """Forget the simulated memory, and the tokens that order the failed kernel's callbacks."""
    pltpu.reset_tpu_interpret_mode_state()
    try:
        from jax._src.dispatch import runtime_tokens

        runtime_tokens.clear()
    except (ImportError, AttributeError):
        raise UnsupportedJax("jax._src.dispatch.runtime_tokens") from None


# ---- reading a trace ----


class Launch:
    """A traced launch function: what it holds, and how to run it."""

    def __init__(self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]):
        self._traced = jax.jit(lambda *arrays: function(*arrays, **kwargs)).trace(*args)
        self._equations: list[Any] = []

    def trace(self) -> Trace:
        """Kernels, operations around them, results."""
        reader = _Reader()
        closed = self._traced.jaxpr
        tainted = reader.read(closed.jaxpr, [False] * len(closed.jaxpr.invars))
        self._equations = reader.equations
        return Trace(
            calls=tuple(kernel_call(eqn) for eqn in reader.equations),
            outside=tuple(reader.outside),
            results=tuple(_array_type(aval) for aval in closed.out_avals),
            from_kernel=tuple(tainted),
        )

    def run(self, args: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        """The results, flat, on the host."""
        outputs = self._traced.lower().compile()(*args)
        return [np.asarray(leaf) for leaf in jax.tree.leaves(outputs)]

    def walk(self) -> Walk | None:
        """Which output block each grid step of the last kernel writes; None where unknowable."""
        return walk_of(self._equations[-1]) if self._equations else None


class _Reader:
    """Walks a jaxpr outside of kernels, following which values a kernel had a hand in."""

    def __init__(self) -> None:
        self.equations: list[Any] = []
        self.outside: list[str] = []

    def read(self, jaxpr: Any, tainted: Sequence[bool]) -> list[bool]:
        from_kernel = {id(var): flag for var, flag in zip(jaxpr.invars, tainted, strict=True)}

        def flag(var: Any) -> bool:
            return from_kernel.get(id(var), False)

        for eqn in jaxpr.eqns:
            flags = [flag(var) for var in eqn.invars]
            outs = self._equation(eqn, flags)
            from_kernel.update((id(var), f) for var, f in zip(eqn.outvars, outs, strict=True))
        return [flag(var) for var in jaxpr.outvars]

    def _equation(self, eqn: Any, flags: list[bool]) -> list[bool]:
        name = eqn.primitive.name
        count = len(eqn.outvars)
        if name in KERNELS:
            if name == "pallas_call":
                self.equations.append(eqn)
            return [True] * count
        inner = _inner_jaxprs(eqn)
        if name not in _WRAPPERS or not inner:
            self.outside.append(name)
        results = [any(flags)] * count
        for sub in inner:
            matching = flags if len(sub.invars) == len(flags) else [any(flags)] * len(sub.invars)
            found = self.read(sub, matching)
            results = found if len(found) == count else [any(found) or any(results)] * count
        return results


def _inner_jaxprs(eqn: Any) -> list[Any]:
    values = itertools.chain.from_iterable(
        value if isinstance(value, (tuple, list)) else (value,) for value in eqn.params.values()
    )
    inner = (getattr(value, "jaxpr", value) for value in values)
    return [jaxpr for jaxpr in inner if hasattr(jaxpr, "eqns") and hasattr(jaxpr, "invars")]


def kernel_call(eqn: Any) -> KernelCall:
    """One pallas_call equation as data. Raises UnsupportedJax where its parameters have moved."""
    try:
        mapping, kernel = eqn.params["grid_mapping"], eqn.params["jaxpr"]
        return KernelCall(
            name=str(eqn.params.get("name") or "kernel"),
            grid=tuple(n if isinstance(n, int) else None for n in mapping.grid),
            operands=tuple(_operands(mapping, kernel)),
            parallel=_parallel(eqn.params.get("compiler_params")),
            callbacks=tuple(n for n in _primitives(kernel) if n in CALLBACKS),
        )
    except (AttributeError, KeyError) as error:
        raise UnsupportedJax(f"a parameter of pallas_call ({error})") from error


def _parallel(compiler_params: Any) -> tuple[int, ...]:
    semantics = getattr(compiler_params, "dimension_semantics", None) or ()
    return tuple(axis for axis, kind in enumerate(semantics) if str(kind).endswith("parallel"))


def _operands(mapping: Any, kernel: Any) -> Iterator[Operand]:
    names = _names(kernel)
    touches = first_touches(kernel)
    prefetch, inputs = mapping.num_index_operands, mapping.num_inputs
    outputs = mapping.num_outputs
    for position, var in enumerate(kernel.invars):
        aval = getattr(var.aval, "inner_aval", var.aval)
        block = position - prefetch
        if 0 <= block < inputs + outputs:
            spec = mapping.block_mappings[block]
            role = Role.INPUT if block < inputs else Role.OUTPUT
            array = _array_type(spec.array_aval)
            sizes = tuple(_size(dim) for dim in spec.block_shape)
            space = _space(spec.transformed_block_aval)
            moves = _moves(spec.index_map_jaxpr.jaxpr)
            axes = _axes(spec.index_map_jaxpr.jaxpr, len(mapping.grid))
        else:
            role = Role.PREFETCH if position < prefetch else Role.SCRATCH
            array = ArrayType(_dtype_name(aval), tuple(getattr(aval, "shape", ())))
            sizes, space, moves, axes = array.shape, _space(var.aval), False, ()
        yield Operand(
            name=names[position],
            role=role,
            array=array,
            block=sizes,
            space=space,
            moves=moves,
            axes=axes,
            first=touches[position],
        )


def _names(kernel: Any) -> list[str]:
    given = getattr(kernel.debug_info, "arg_names", None) or ()
    return [
        str(given[i]) if i < len(given) and given[i] else f"operand {i}"
        for i in range(len(kernel.invars))
    ]


def _size(dim: Any) -> int | None:
    """A block's size along one dimension, in elements; None where it is squeezed."""
    if dim is None or type(dim).__name__ == "Squeezed":
        return None
    return dim if isinstance(dim, int) else int(dim.block_size)


def _moves(index_map: Any) -> bool:
    return any(getattr(var, "val", None) != 0 for var in index_map.outvars)


def _axes(index_map: Any, grid_rank: int) -> tuple[int, ...]:
    """The grid dimensions on which an index map's results depend."""
    sources = {id(var): {axis} for axis, var in enumerate(index_map.invars[:grid_rank])}
    for eqn in index_map.eqns:
        seen = set().union(*(sources.get(id(var), set()) for var in eqn.invars))
        sources.update((id(var), seen) for var in eqn.outvars)
    return tuple(sorted(set().union(*(sources.get(id(var), set()) for var in index_map.outvars))))


def _space(aval: Any) -> str:
    space = getattr(aval, "memory_space", None)
    return str(getattr(space, "value", space) or "default")


def _array_type(aval: Any) -> ArrayType:
    return ArrayType(_dtype_name(aval), tuple(int(n) for n in aval.shape))


def _dtype_name(aval: Any) -> str:
    dtype = getattr(aval, "dtype", None)
    return str(getattr(dtype, "name", dtype))


def _primitives(jaxpr: Any) -> Iterator[str]:
    for eqn in jaxpr.eqns:
        yield eqn.primitive.name
        for sub in _inner_jaxprs(eqn):
            yield from _primitives(sub)


# ---- who is read before it is written ----


def first_touches(kernel: Any) -> list[Touch]:
    """What a kernel's body does first to each of its Refs, in program order.

    A write inside a `pl.when` counts as guarded: whether it runs depends on the grid step.
    """
    touches = dict.fromkeys(map(id, kernel.invars), Touch.NOTHING)
    _touch(kernel, {id(var): id(var) for var in kernel.invars}, touches, guarded=False)
    return [touches[id(var)] for var in kernel.invars]


def _touch(jaxpr: Any, refs: dict[int, int], touches: dict[int, Touch], guarded: bool) -> None:
    used = {id(var) for eqn in jaxpr.eqns for var in eqn.invars} | set(map(id, jaxpr.outvars))
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        operands = [refs.get(id(var)) for var in eqn.invars]
        for sub in (inner := _inner_jaxprs(eqn)):
            # A cond's first operand chooses the branch; the rest line up with each branch's.
            aligned = operands[len(operands) - len(sub.invars) :]
            mapped = {
                id(var): ref
                for var, ref in zip(sub.invars, aligned, strict=False)
                if ref is not None
            }
            _touch(sub, mapped, touches, guarded or name == "cond")
        if inner:
            continue
        # A store is a swap whose old value nobody uses.
        reads = name in _READS or (name == "swap" and id(eqn.outvars[0]) in used)
        for ref in operands:
            if ref is not None and touches[ref] is Touch.NOTHING:
                write = Touch.GUARDED_WRITE if guarded else Touch.WRITE
                touches[ref] = Touch.READ if reads else write


# ---- grid steps and blocks ----

MAX_STEPS = 4096


def walk_of(eqn: Any) -> Walk | None:
    """Evaluate a pallas_call's output index maps over its grid, in the order of the grid steps.

    None for a dynamic grid, for index maps that read scalar prefetch, and beyond MAX_STEPS.
    """
    mapping = eqn.params["grid_mapping"]
    sizes = [n if isinstance(n, int) else 0 for n in mapping.grid]
    count = int(np.prod(sizes)) if sizes else 1
    if mapping.num_index_operands or not 0 < count <= MAX_STEPS:
        return None
    steps = list(itertools.product(*map(range, sizes)))
    columns = [np.array(column, np.int32) for column in zip(*steps, strict=True)]
    outputs = mapping.block_mappings[mapping.num_inputs : mapping.num_inputs + mapping.num_outputs]
    return Walk(
        steps=tuple(steps),
        outputs=tuple(_indices(spec.index_map_jaxpr, columns, count) for spec in outputs),
    )


def _indices(
    index_map: Any, columns: list[np.ndarray[Any, Any]], count: int
) -> tuple[tuple[int, ...], ...]:
    from jax.extend import core

    function = core.jaxpr_as_fun(index_map)
    if not columns:
        results = [np.full(count, int(value)) for value in function()]
    else:
        results = [np.asarray(value) for value in jax.jit(jax.vmap(function))(*columns)]
    return tuple(tuple(int(value[step]) for value in results) for step in range(count))


# ---- reading a spec ----


def longest_sum(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> int:
    """How many terms the longest sum (or product) of a jax.numpy function has; 1 if it has none."""
    closed = jax.make_jaxpr(lambda *arrays: function(*arrays, **kwargs))(*args)
    return max(_sums(closed.jaxpr), default=1)


def _sums(jaxpr: Any) -> Iterator[int]:
    for eqn in jaxpr.eqns:
        for sub in _inner_jaxprs(eqn):
            yield from _sums(sub)
        name, shape = (
            eqn.primitive.name,
            getattr(eqn.invars[0].aval, "shape", ()) if eqn.invars else (),
        )
        if name == "dot_general":
            (contracted, _), _ = eqn.params["dimension_numbers"]
            yield int(np.prod([shape[axis] for axis in contracted], initial=1))
        elif name in _SUMS:
            axes = eqn.params.get("axes") or (eqn.params.get("axis", 0),)
            yield int(np.prod([shape[axis] for axis in axes], initial=1))
