"""The source line of an equation, its author, and the lines that wait.

The library is jax without the kernels that it ships (`jax.experimental.pallas.ops`), the modules
that jax is made of, and Python's own modules. The library functions that a kernel calls (jnp,
`emit_pipeline`) count as the caller's work; a shipped kernel is its authors' work.
"""

from __future__ import annotations

import ast
import functools
import os
import sysconfig
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

import jax
import numpy as np
from jax.extend import core

from pallascope.kernels.jaxprs import inner_jaxprs, sites
from pallascope.kernels.refs import names_of
from pallascope.model import OperationPlace, SourceFile, SourceLine

_JAX = os.path.dirname(jax.__file__) + os.sep
_SHIPPED = os.path.join(_JAX, "experimental", "pallas", "ops") + os.sep
_PYTHON = sysconfig.get_path("stdlib") + os.sep
_PACKAGES = sysconfig.get_path("purelib") + os.sep
#: Modules that jax and a kata call: the innermost frame may be theirs, as in np.sum(x_ref[...]).
_LIBRARIES = tuple(
    os.path.join(_PACKAGES, name) + os.sep
    for name in ("numpy", "scipy", "opt_einsum", "ml_dtypes", "jaxlib", "jaxtyping", "beartype")
)
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_OURS = tuple(os.path.join(_ROOT, name) + os.sep for name in ("pallascope", "grader"))
#: Code of the import system and of beartype.
_GENERATED = ("<frozen ", "<@beartype")
_JITTED = ("jit", "pjit")


def line_in(eqn: core.JaxprEqn, file: str) -> int:
    """The innermost line of `file` from which an equation was traced; 0 if there is none."""
    return line_of(eqn.source_info, file)


def line_of(source_info: Any, file: str) -> int:
    """The same from an equation's source info."""
    for code, instruction in _frames_of(source_info):
        if code.co_filename == file:
            return _line(code, instruction)
    return 0


def source_line(source_info: Any, source: SourceFile) -> SourceLine | None:
    """The innermost line of a file, or of its others, from an equation's source info."""
    files = source.files
    for code, instruction in _frames_of(source_info):
        if code.co_filename in files:
            return source.place(_line(code, instruction), code.co_filename)
    return None


def place_of(source_info: Any, file: str) -> tuple[int, int]:
    """The innermost line and column of `file`, from an equation's source info; else zeros."""
    for code, instruction in _frames_of(source_info):
        if code.co_filename == file:
            return _place(code, instruction)
    return 0, 0


def files_of(source_info: Any) -> Iterator[str]:
    """The files of an equation's frames, the innermost first."""
    return (code.co_filename for code, _ in _frames_of(source_info))


def foreign_author(kernel: core.Jaxpr, file: str) -> str:
    """The file, other than `file`, that contains a part of a kernel's body; "" if there is none.

    A path in a package begins with the package: "jax/experimental/pallas/ops/tpu/matmul.py".
    """
    function = _function_file(kernel)
    if function != file and _is_work(function):
        return _short(function)
    for site in sites(kernel, _written):
        author = _author(site.eqn)
        if author and author != file:
            return _short(author)
    return ""


def authors(kernel: core.Jaxpr) -> set[str]:
    """The files of somebody's work in which the parts of a kernel's body are written."""
    return {_author(site.eqn) for site in sites(kernel, _written)} - {""}


#: jax makes no operation of these if they change nothing.
_LEFT_OUT = ("convert_element_type", "copy", "expand_dims", "reshape", "squeeze")


def places_of(jaxpr: core.Jaxpr, file: str) -> tuple[OperationPlace, ...]:
    """The places in `file` of the operations of a jaxpr, also in kernels, in order.

    Those of calls that lead to them count too. Operations that only give an array another shape or
    dtype don't count.
    """
    found: set[tuple[tuple[CodeType, int], tuple[str, ...]]] = set()
    for site in sites(jaxpr, _written):
        frames = [frame for frame in _frames(site.eqn) if frame[0].co_filename == file]
        if not frames or site.eqn.primitive.name in _LEFT_OUT:
            continue
        operands = [atom for atom in site.eqn.invars if isinstance(atom, core.Literal)]
        numbers = tuple(str(operand.val) for operand in operands if not np.ndim(operand.val))
        found.add((frames[0], numbers))
        found.update((frame, ()) for frame in frames[1:])
    return tuple(sorted({OperationPlace(*_place(*frame), numbers) for frame, numbers in found}))


def line_within(jaxpr: core.Jaxpr, file: str, function: str, lines: range = range(0)) -> int:
    """A line of one of `file`'s functions from which a part of a trace comes; 0 if none.

    `lines` are the function's: a copy of it may have another name.
    """
    for site in sites(jaxpr, _written):
        for code, instruction in _frames(site.eqn):
            if code.co_filename != file:
                continue
            line = _line(code, instruction)
            if code.co_name == function or line in lines:
                return line
    return 0


def _written(eqn: core.JaxprEqn) -> list[core.Jaxpr]:
    """For `sites`: the jaxprs inside an equation, without functions that the library has jitted.

    jax keeps the trace of a jitted function, with the lines of its first caller.
    """
    jitted = eqn.primitive.name in _JITTED
    return [each for each in inner_jaxprs(eqn) if not jitted or _is_work(_function_file(each))]


def _author(eqn: core.JaxprEqn) -> str:
    """The file of the innermost frame outside of the library; "" if there is none."""
    return next((code.co_filename for code, _ in _frames(eqn) if _is_work(code.co_filename)), "")


def _line(code: CodeType, instruction: int) -> int:
    return _place(code, instruction)[0]


def _place(code: CodeType, instruction: int) -> tuple[int, int]:
    """The line and the column."""
    from pallascope.kernels.jax_internals import raw_frame_to_frame

    frame = raw_frame_to_frame(code, instruction)
    return frame.start_line, frame.start_column


def _function_file(jaxpr: core.Jaxpr) -> str:
    """A traced function's file: its source info reads "NAME at FILE:LINE"; otherwise ""."""
    text = str(getattr(jaxpr.debug_info, "func_src_info", "") or "")
    place = text.rpartition(" at ")[2]
    return place.rpartition(":")[0]


@functools.cache
def _is_work(file: str) -> bool:
    """Whether a file is somebody's work: neither the library's nor the grader's."""
    if file.startswith(_SHIPPED):
        return True
    if not file or file.startswith((_JAX, *_OURS, *_LIBRARIES, *_GENERATED)):
        return False
    if not os.path.isabs(file):  # compiled from a text, under this name
        return True
    return file.startswith(_PACKAGES) or not file.startswith(_PYTHON)


def _short(file: str) -> str:
    """A file of an installed package without the folder of all packages."""
    for folder in (os.path.dirname(os.path.dirname(_JAX)) + os.sep, _PACKAGES):
        if file.startswith(folder):
            return file.removeprefix(folder).replace(os.sep, "/")
    return file


def _frames(eqn: core.JaxprEqn) -> Iterator[tuple[CodeType, int]]:
    """Code and instruction of each frame that an equation was traced in, the innermost first."""
    yield from _frames_of(eqn.source_info)


def _frames_of(source_info: Any) -> Iterator[tuple[CodeType, int]]:
    trace = source_info.traceback
    if trace is not None:
        yield from zip(*trace.raw_frames(), strict=True)


#: The scopes in which `emit_pipeline` starts copies.
_OF_PIPELINES = ("ep_initialize", "ep_copy_in", "ep_copy_out")


def copied_by_pipeline(source_info: Any) -> bool:
    """Whether a copy was started by `emit_pipeline` itself, and not by its body."""
    scopes = str(source_info.name_stack).split("/") if source_info is not None else ()
    own = [scope for scope in scopes if scope.startswith("ep_")]
    return bool(own) and own[-1].startswith(_OF_PIPELINES)


_WAITS = "semaphore_wait"
_BARRIERS = "get_barrier_semaphore"


class WaitLines:
    """The lines of all waits of a kernel, by the names of its semaphores."""

    def __init__(self) -> None:
        self._found = defaultdict[str, list[Any]](list)

    @classmethod
    def in_kernel(cls, kernel: core.Jaxpr, barrier: str) -> WaitLines:
        """`barrier` is the name of barrier semaphores."""
        found = cls()
        names = dict(zip(map(id, kernel.invars), names_of(kernel), strict=True))
        for site in sites(kernel):
            if site.eqn.primitive.name == _BARRIERS:
                names[id(site.eqn.outvars[0])] = barrier
            elif site.eqn.primitive.name == _WAITS:
                name = names.get(id(site.root(site.eqn.invars[0])), "")
                found._found[name].append(site.eqn.source_info)
        return found

    def of(self, semaphore: str, source: SourceFile) -> SourceLine | None:
        """The only line that waits for a semaphore, or for one of an array; None if unknown."""
        waits = self._found.get(semaphore) or self._found.get(semaphore.partition("[")[0], [])
        lines = {source_line(info, source) for info in waits} - {None}
        return lines.pop() if len(lines) == 1 else None


@dataclass(frozen=True)
class Source:
    """A file whose operations are changed: its `lines`, and the numbers of those that are `asked`.

    If none are, operations of all lines are changed.
    """

    file: str
    lines: Sequence[str]
    asked: Collection[int]

    def assigned(self, place: tuple[int, int]) -> str:
        """The name to which the value of an expression at this place is assigned, or ""."""
        return next((name for start, end, name in self._assignments if start <= place < end), "")

    @functools.cached_property
    def _assignments(self) -> list[tuple[tuple[int, int], tuple[int, int], str]]:
        """Start and end of each value that is assigned to a name; an inner one comes first."""
        found: list[tuple[tuple[int, int], tuple[int, int], str]] = []
        for node in ast.walk(ast.parse("\n".join(self.lines))):
            if not isinstance(node, ast.Assign) or len(node.targets) != 1:
                continue
            target, value = node.targets[0], node.value
            pairs: list[tuple[ast.expr, ast.expr]] = [(target, value)]
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                pairs = list(zip(target.elts, value.elts, strict=False))
            for name, part in pairs:
                if isinstance(name, ast.Name):
                    end = part.end_lineno or 0, part.end_col_offset or 0
                    found.append(((part.lineno, part.col_offset), end, name.id))
        return sorted(found, key=lambda each: each[0], reverse=True)
