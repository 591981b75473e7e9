"""Lints: habits that are slow or often wrong, sub-word integers, remote DMA, lines without effect.

Advice is chosen by a kernel's habits: patterns that are slow on a TPU, or often wrong.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Collection, Iterator
from typing import SupportsFloat

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core

from pallascope.kernels.jaxprs import array_struct, equations, sites
from pallascope.kernels.manual_dma import ends, is_remote, ref_of
from pallascope.kernels.source_lines import line_in
from pallascope.model import Lint, Note, SourceFile, SubWordInt

#: Operations that move or convert values, and compute nothing.
_NO_WORK = ("get", "load", "masked_load", "swap", "convert_element_type")


def sub_word_integers(kernel: core.Jaxpr, file: str) -> tuple[SubWordInt, ...]:
    """Each such dtype, in inner jaxprs too, with the first line of `file` that computes in it."""
    found: dict[str, SubWordInt] = {}
    for eqn in equations(kernel):
        for var in eqn.outvars if eqn.primitive.name not in _NO_WORK else ():
            dtype = getattr(var.aval, "dtype", None)
            if dtype is None or not jnp.issubdtype(dtype, jnp.integer):
                continue
            if jnp.iinfo(dtype).bits < 32 and dtype.name not in found:
                found[dtype.name] = SubWordInt(dtype.name, line_in(eqn, file))
    return tuple(found.values())


OTHER_CHIPS = (
    "it communicates with other chips, and the time for that isn't predicted: each kernel is "
    "compiled alone, for one chip"
)


def uses_remote_dma(kernel: core.Jaxpr, own_axes: Collection[object]) -> bool:
    """Whether a kernel's body communicates. `own_axes` are the axes of its grid or mesh."""
    return any(_is_among_chips(eqn, own_axes) for eqn in equations(kernel))


def _is_among_chips(eqn: core.JaxprEqn, own_axes: Collection[object]) -> bool:
    match eqn.primitive.name:
        case "dma_start":
            return is_remote(eqn)
        case "semaphore_signal":
            *_, device, _core = jax.tree.unflatten(eqn.params["args_tree"], eqn.invars)
            return device is not None
        case "axis_index":
            name = eqn.params["axis_name"]
            names = name if isinstance(name, tuple) else (name,)
            return any(one not in own_axes for one in names)
        case "get_barrier_semaphore":
            return True
    return False


LANES = 128
_SHAPED = ("broadcast_in_dim", "reshape", "transpose", "squeeze")
_REDUCTIONS = ("reduce_sum", "reduce_max", "reduce_min")


def lints_of(kernel: core.Jaxpr) -> tuple[Lint, ...]:
    """The habits of a kernel's body, including inner jaxprs, each once."""
    found: dict[Lint, None] = {}
    columns: set[int] = set()  # ids of values that were reduced along the lanes
    for eqn in equations(kernel):
        name = eqn.primitive.name
        if name == "dot_general":
            found.update(dict.fromkeys(_of_product(eqn)))
        elif name in _REDUCTIONS and _along_lanes(eqn):
            found[Lint.LANE_REDUCTION] = None
            columns.add(id(eqn.outvars[0]))
        elif name == "transpose":
            found[Lint.TRANSPOSE] = None
        elif _chooses(eqn) and any(map(_is_near, eqn.invars)):
            found[Lint.NEAR_MASK] = None
        if name in _SHAPED and id(eqn.invars[0]) in columns:
            columns.add(id(eqn.outvars[0]))
            shape = array_struct(eqn.outvars[0]).shape
            if shape and shape[-1] == math.prod(shape) > 1:
                found[Lint.TURNED_COLUMN] = None
    return tuple(found)


def _of_product(eqn: core.JaxprEqn) -> list[Lint]:
    (_, summed), _ = eqn.params["dimension_numbers"]
    left, right = (array_struct(var).shape for var in eqn.invars)
    terms = math.prod(right[axis] for axis in summed)
    columns = math.prod(right) // max(terms, 1)
    rows = math.prod(left) // max(terms, 1)
    found = [Lint.NARROW_PRODUCT] if min(terms, columns, rows) < LANES else []
    precision = eqn.params.get("precision")
    parts = precision if isinstance(precision, tuple) else (precision,)
    precise = any(part not in (None, lax.Precision.DEFAULT) for part in parts)
    if precise:
        return [*found, Lint.PRECISE_PRODUCT]
    wide = any(array_struct(var).dtype == "float32" for var in eqn.invars)
    return [*found, *([Lint.ROUNDED_PRODUCT] if wide else [])]


#: Numbers that serve as a mask: below any computed value, and far above the lowest float32.
_LOWEST, _HIGHEST = -1e30, -10.0


def _chooses(eqn: core.JaxprEqn) -> bool:
    """Whether an equation is a select, or the function to which jnp.where is traced."""
    return eqn.primitive.name == "select_n" or eqn.params.get("name") == "_where"


def _is_near(atom: core.Var | core.Literal) -> bool:
    """Whether an operand is a number that stands for minus infinity but is far from it."""
    value = getattr(atom, "val", None)
    return isinstance(value, SupportsFloat) and _LOWEST < float(value) < _HIGHEST


def _along_lanes(eqn: core.JaxprEqn) -> bool:
    return len(array_struct(eqn.invars[0]).shape) - 1 in eqn.params.get("axes", ())


def never_awaited(kernel: core.Jaxpr) -> list[bool]:
    """For each input of a kernel's body: whether copies from or to it are started, but no copy that
    involves it, or a semaphore of its copies, is ever waited for."""
    started: dict[int, set[int]] = {}
    awaited: set[int] = set()
    for site in sites(kernel):
        touched = {id(site.root(var)) for var in site.eqn.invars if hasattr(var.aval, "inner_aval")}
        if site.eqn.primitive.name == "dma_start":
            for end in map(ref_of, ends(site.eqn)):
                started.setdefault(id(site.root(end)), set()).update(touched)
        elif site.eqn.primitive.name in ("dma_wait", "semaphore_wait"):
            awaited |= touched
    return [
        id(var) in started and not (started[id(var)] | {id(var)}) & awaited for var in kernel.invars
    ]


_BARE_WHEN = (
    "pl.when decorates a function; this line alone guards nothing. Write @pl.when(condition) over "
    "def _(): and indent the code that depends on it"
)
_WITHOUT_CONDITION = "@pl.when needs its condition, @pl.when(condition): this function never runs"


def notes_on(source: SourceFile) -> tuple[Note, ...]:
    """A note for each line that does nothing; none if the file can't be parsed."""
    try:
        tree = ast.parse(source.content)
        return tuple(sorted(_idle(tree), key=lambda note: note.line))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()


def _idle(tree: ast.AST) -> Iterator[Note]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            if _is_when(node.value.func):
                yield Note(_BARE_WHEN, node.lineno)
        elif isinstance(node, ast.FunctionDef):
            for decorator in filter(_is_when, node.decorator_list):
                yield Note(_WITHOUT_CONDITION, decorator.lineno)


def _is_when(node: ast.AST) -> bool:
    """Whether this is pl.when itself, not a call of it."""
    return (
        isinstance(node, ast.Attribute)
        and node.attr == "when"
        and isinstance(node.value, ast.Name)
        and node.value.id in ("pl", "pallas")
    )
