"""Reads a trace from bytes, checks it, and sets `interpret`.

`interpret` is a parameter of each kernel. A launch is traced once, so the mode in which it runs is
a change to its trace. The TPU interpreter orders its host callbacks by an effect, which each jaxpr
around a kernel names too.

The check is JAX's own, including kernels: the types in a trace must be true. The interpreter
computes with values, Mosaic with the types written next to them, and bytes made by hand could give
each something different.

Bytes become a trace, or raise SerializationError: whatever the bytes are, nothing in them runs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import operator
from collections.abc import Iterator
from typing import Any

import jax
from jax.experimental.pallas import tpu as pltpu
from jax.extend import core

from pallascope.kernels.jax_internals import (
    JaxprTypeError,
    check_jaxpr,
    extend_axis_env_nd,
    get_interpret_effects,
)
from pallascope.kernels.jaxprs import Rewriter, closed_jaxprs, equations, inner_jaxprs, sites
from pallascope.kernels.pallas_params import KERNELS, block_size, is_pallas_call, semantics
from pallascope.kernels.serialization.dump import by_name
from pallascope.kernels.serialization.encoding import (
    MOST_BYTES,
    MOST_FRAMES,
    MOST_LEVELS,
    MOST_NODES_UNFOLDED,
    SerializationError,
)
from pallascope.kernels.serialization.wire_format import (
    BYTES,
    LARGEST,
    TRACEBACK,
    Stack,
    WireLayout,
    stack_of,
    tracebacks,
    unpacked,
)
from pallascope.kernels.sharding import axes_of

Interpret = bool | pltpu.InterpretParams


def with_interpret(closed: core.ClosedJaxpr, params: Interpret) -> core.ClosedJaxpr:
    """The trace with `interpret=params` in each of its kernels, wherever they are nested.

    False is for the compiler, True for the plain interpreter, InterpretParams for the TPU's. The
    launch's own choice is replaced. The given trace stays unchanged.
    """
    return _InterpretRewriter(params).value(closed)


def asks_to_interpret(closed: core.ClosedJaxpr) -> tuple[int, ...]:
    """The lines from which a kernel was launched with an `interpret` other than False.

    In program order, each once; 0 if the line is unknown.
    """
    lines = (
        _line(eqn)
        for eqn in equations(closed.jaxpr)
        if eqn.primitive.name in KERNELS and eqn.params.get("interpret") not in (None, False)
    )
    return tuple(dict.fromkeys(lines))


def _line(eqn: core.JaxprEqn) -> int:
    traceback = eqn.source_info.traceback
    stack = stack_of(traceback) if traceback is not None else ()
    return stack[0].line if stack else 0


def _of_every_dimension(kernel: core.JaxprEqn) -> dict[str, Any]:
    """`compiler_params` with the semantics of each grid dimension, if vmap has added some.

    Mosaic adds theirs itself; the interpreter needs them.
    """
    params: Any = kernel.params.get("compiler_params")
    given = getattr(params, "dimension_semantics", None)
    if not given or not is_pallas_call(kernel) or len(every := semantics(kernel)) == len(given):
        return {}
    return {"compiler_params": dataclasses.replace(params, dimension_semantics=every)}


class _InterpretRewriter(Rewriter):
    """Sets `interpret` of all kernels, and adds its effects to the jaxprs around them."""

    def __init__(self, params: Interpret) -> None:
        super().__init__()
        self._interpret = params
        self._effects = set(get_interpret_effects(params))

    def rebuilt(self, jaxpr: Any, eqns: list[core.JaxprEqn]) -> Any:
        if all(map(operator.is_, eqns, jaxpr.eqns)):
            return jaxpr
        return jaxpr.replace(eqns=eqns, effects={*jaxpr.effects, *self._effects})

    def equation(self, eqn: core.JaxprEqn) -> list[core.JaxprEqn]:
        params, effects = self.params(eqn), set(eqn.effects)
        if eqn.primitive.name in KERNELS:
            effects -= set(get_interpret_effects(params.get("interpret", False)))
            params["interpret"] = self._interpret
            if self._interpret is not False:
                params |= _of_every_dimension(eqn)
        elif all(value is eqn.params[name] for name, value in params.items()):
            return [eqn]
        return [eqn.replace(params=params, effects=effects | self._effects)]


def checked(closed: core.ClosedJaxpr) -> core.ClosedJaxpr:
    """The trace, if every variable in it has the type that its equation gives it.

    Call it within `for_chip`, as when the trace was made. Raises SerializationError. Takes about as
    long as reading the bytes.
    """
    try:
        check_jaxpr(closed.jaxpr)
        _check_constants(closed)
        for site in sites(closed.jaxpr, lambda eqn: [each.jaxpr for each in closed_jaxprs(eqn)]):
            for each in closed_jaxprs(site.eqn):
                _check_constants(each)
        for site in sites(closed.jaxpr, _opened):
            if (eqn := site.eqn).primitive.name != "pallas_call":
                continue
            axes = {name: size for around in site.path for name, size in axes_of(around).items()}
            mapping = eqn.params["grid_mapping"]
            with extend_axis_env_nd(list(axes.items())):
                with mapping.trace_env():
                    check_jaxpr(eqn.params["jaxpr"])
                for block in mapping.block_mappings:
                    check_jaxpr(block.index_map_jaxpr.jaxpr)
            _check_blocks(eqn, mapping)
        return closed
    except JaxprTypeError as error:
        reason = str(error).partition("\n")[0]
    except Exception as error:
        reason = type(error).__name__
    raise SerializationError(f"a trace whose types do not fit: {reason}")


def _check_constants(closed: core.ClosedJaxpr) -> None:
    """Whether each constant of a closed jaxpr has the type of its variable.

    jax 0.12 leaves out some constants that an equation is given too: these are None. Raises
    JaxprTypeError.
    """
    for var, value in zip(closed.jaxpr.constvars, closed.consts, strict=True):
        _demand(value is None or _array(jax.typeof(value)) == _array(var.aval), "a constant")


def _check_blocks(eqn: core.JaxprEqn, mapping: Any) -> None:
    """Whether operands, blocks and Refs have the same types everywhere.

    The interpreter uses those of the operands and the BlockSpecs, Mosaic also the types that are
    written next to these. Raises JaxprTypeError.
    """
    bounds = sum(not isinstance(size, int) for size in mapping.grid)
    prefetch, first = mapping.num_index_operands, bounds + mapping.num_index_operands
    blocks, refs = mapping.block_mappings, eqn.params["jaxpr"].invars
    arrays = [*eqn.invars[first:], *eqn.outvars]
    blocked, scratch = refs[prefetch:][: len(blocks)], refs[prefetch + len(blocks) :]
    _demand(len(blocks) == mapping.num_inputs + mapping.num_outputs == len(arrays), "a grid")
    for block, array, ref in zip(blocks, arrays, blocked, strict=True):
        _demand(_array(block.array_aval) == _array(array.aval), "the array of a block")
        _demand(block.ref_aval == ref.aval or bool(block.transforms), "the Ref of a block")
        sizes = (block_size(size) for size in block.block_shape)
        shape = tuple(size for size in sizes if size is not None)
        _demand(bool(block.transforms) or shape == block.ref_aval.shape, "the shape of a block")
        _demand(not block.index_map_jaxpr.consts, "an index map without constants")
    scratch_types = [var.aval for var in scratch]
    _demand(scratch_types == list(mapping.scratch_avals), "scratch")


def _array(aval: Any) -> tuple[Any, ...]:
    return aval.shape, aval.dtype


def _demand(holds: bool, what: str) -> None:
    if not holds:
        raise JaxprTypeError(f"{what} has another type in the kernel")


def _opened(eqn: core.JaxprEqn) -> list[core.Jaxpr]:
    return [] if eqn.primitive.name == "pallas_call" else inner_jaxprs(eqn)


def loaded(data: bytes) -> core.ClosedJaxpr:
    """The trace from which `dumped` made these bytes.

    Raises SerializationError unless it is a carried trace of this version of jax.
    """
    if len(data) > MOST_BYTES:
        raise SerializationError(f"{len(data) >> 20} MiB are too many for a trace")
    try:
        with _undisturbed():
            return _Load(unpacked(data)).root()
    except SerializationError:
        raise
    except Exception as error:
        reason = _told(error)
    # Not within `except`: printing an exception's context would print objects made from the data.
    raise SerializationError(f"not a carried trace: {reason}")


def _told(error: Exception) -> str:
    """An exception's message, unless objects made from the data would produce it."""
    said = [arg for arg in error.args if type(arg) in (str, int)]
    return ": ".join([type(error).__name__, *(str(arg)[:200] for arg in said)])


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Without garbage collection: everything is kept, and collecting takes half of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


class _Load:
    """A table of nodes while it becomes objects."""

    def __init__(self, layout: WireLayout) -> None:
        self._layout = layout
        if layout.jax != jax.__version__:
            raise SerializationError(f"a trace of jax {layout.jax!r}, read by {jax.__version__}")
        known = by_name()
        self._builders = [known[name].build for name in layout.forms]
        self._tracebacks = tracebacks(list(map(_short_enough, layout.stacks)))

    def root(self) -> core.ClosedJaxpr:
        found = self._objects()[self._layout.root]
        if not isinstance(found, core.ClosedJaxpr):
            raise SerializationError(f"expected a trace, got a {type(found).__name__}")
        return found

    def _objects(self) -> list[Any]:
        """An object for each node, made from earlier ones."""
        made: list[Any] = []
        levels: list[int] = []
        sizes: list[int] = []
        for node in self._layout.nodes:
            level = size = 1
            if type(node) is not list:
                value = self._plain(node)
            elif node[0] < 0:
                value = self._special(*node)
            else:
                build, parts = self._builders[node[0]], node[1:]
                if parts:
                    level += max([levels[part] for part in parts])
                    size += sum([sizes[part] for part in parts])
                    if level > MOST_LEVELS or size > MOST_NODES_UNFOLDED:
                        raise SerializationError("objects in objects without end")
                value = build(*[made[part] for part in parts])
            made.append(value)
            levels.append(level)
            sizes.append(size)
        return made

    def _plain(self, value: Any) -> Any:
        kind = type(value)
        if kind is int and abs(value) > LARGEST:
            raise SerializationError("a number of more than 64 bits")
        if kind is dict:
            raise SerializationError("a node is a value or a list")
        return value

    def _special(self, kind: int, number: int) -> Any:
        if kind == TRACEBACK:
            return self._tracebacks[number]
        if kind == BYTES:
            return self._layout.blobs[number]
        raise SerializationError(f"nodes have no kind {kind}")


def _short_enough(stack: Stack) -> Stack:
    if len(stack) > MOST_FRAMES:
        raise SerializationError(f"a stack of {len(stack)} frames")
    return stack
