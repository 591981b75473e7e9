"""One call of a function that launches kernels, traced for a TPU; the errors of its checks."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import os
import re
import sysconfig
import textwrap
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pallascope.checks.compare import ROUNDOFF
from pallascope.checks.exception_advice import EXCEPTION_ADVICE, WITHOUT_KERNEL
from pallascope.checks.exceptions import raised_finding
from pallascope.checks.expected_results import reference_function
from pallascope.kernels import NotSerializable, TracedLaunch, for_chip
from pallascope.model import (
    Array,
    Axes,
    Check,
    Finding,
    KernelCall,
    Operand,
    Reference,
    Role,
    SourceFile,
    Stage,
    Trace,
)
from pallascope.runs.exception_reports import problem_of
from pallascope.runs.questions import TargetDevice
from pallascope.tools.arrays import from_numpy, to_numpy
from pallascope.tpu.chips import Chip

#: Advice on exceptions, but for exercises of the course.
_ADVICE = tuple(row for row in EXCEPTION_ADVICE if not re.search("kata|grader", row[1]))
#: Advice on those that Pallas doesn't raise: the limits of jit, and derivatives.
_OUTSIDE = (
    *(row for row in WITHOUT_KERNEL if row not in EXCEPTION_ADVICE),
    *(row for row in _ADVICE if "custom_vjp" in row[1]),
)


class KernelFault(AssertionError):
    """A fault of a kernel. `finding` has its cause, `check` the name of the check that found it."""

    def __init__(self, finding: Finding, about: str = "") -> None:
        told = finding.message
        if not told.startswith(finding.phrase):
            told = f"{finding.phrase}\n{told}"
        case = f"\n\n  case   {about}" if about else ""
        super().__init__(f"{finding.check.title}: {told}{case}")
        self.finding, self.check = finding, finding.check.value

    __module__ = "pallascope"  # as pytest shows it


class KernelNotJudged(Exception):
    """A test that can't be made here: the compiler is missing, or the interpreter lacks something.

    No fault of the kernel is known.
    """

    __module__ = "pallascope"


@dataclass(frozen=True, slots=True)
class TracedCall:
    """One call of a function, traced for a chip."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    target: Chip
    axes: Axes
    launch: TracedLaunch
    trace: Trace
    source: SourceFile
    shown: str
    given: tuple[Any, ...]
    names: tuple[str, ...]
    out_tree: Any
    about: str
    scratch: tuple[Operand, ...]  # outputs that nothing uses

    @property
    def copies_by_hand(self) -> bool:
        return any(operand.copied for call in self.trace.calls for operand in call.operands)

    @property
    def may_race(self) -> bool:
        """Whether something in its kernels may happen at the same time."""
        calls = self.trace.calls
        together = any(call.parallel or call.cores > 1 or call.scoped for call in calls)
        return together or self.copies_by_hand or bool(self.axes)

    @property
    def cores(self) -> tuple[int, ...]:
        """The numbers of cores that a run has by default."""
        parallel = any(call.parallel for call in self.trace.calls)
        own = (self.target.cores,) if parallel and self.copies_by_hand else ()
        return tuple(dict.fromkeys((2, *own)))

    def asked(self, runs: bool = True) -> tuple[SourceFile, bytes, tuple[Array, ...], TargetDevice]:
        """The first fields of each TraceQuestion. Raises KernelNotJudged.

        A launch that `runs` needs the contents of its inputs. Flags of the compiler are left out.
        """
        __tracebackhide__ = True
        try:
            data = self.launch.dumped(for_runs=True)
        except NotSerializable as error:
            raise KernelNotJudged(f"its trace can't be run in another process: {error}") from None
        inputs = self.inputs() if runs else tuple(map(_input, self.given))
        return self.source, data, inputs, TargetDevice(self.target.name, mesh=self.axes)

    def inputs(self) -> tuple[Array, ...]:
        """The arrays with their contents. Raises ValueError if one has none."""
        for name, array in zip(self.names, self.given, strict=True):
            if isinstance(array, jax.ShapeDtypeStruct):
                raise ValueError(f"{name} has no contents: a run needs arrays")
        return tuple(map(_input, self.given))

    def is_about_scratch(self, race: str) -> bool:
        """Whether a race is between copies of blocks of outputs that nothing uses."""
        raced = re.findall(r"of (\S+) \('hbm', [^)]*\)\[.*\] from .*, pallas_call", race)
        scratch = {(one.name, one.array) for one in self.scratch}
        outputs = {
            (one.name, one.array) for call in self.trace.calls for one in call.role(Role.OUTPUT)
        }
        used = {name for name, _ in outputs - scratch}
        return len(raced) == 2 and set(raced) <= {name for name, _ in scratch} - used

    def name_of(self, position: int) -> str:
        return f"result {position}" if len(self.trace.results) > 1 else "the result"

    def results(self, outputs: Sequence[Array]) -> Any:
        """The results in the function's structure."""
        return jax.tree.unflatten(self.out_tree, list(map(to_numpy, outputs)))

    def reference(
        self, expected: tuple[Array, ...], terms: int = 1, sways: tuple[float, ...] = ()
    ) -> Reference:
        return Reference(
            names=self.names,
            inputs=self.inputs(),
            keywords={},
            expected=expected,
            results=self.trace.results,
            annotations=(),
            contraction=terms,
            sways=sways,
        )

    def evaluated(
        self, expected: Callable[..., Any], seed: int
    ) -> tuple[tuple[Array, ...], tuple[float, ...]]:
        """The results of a function of the same arguments, floating ones in float64.

        They are also computed in float64, with their sways, if the function can be traced so.
        """
        kwargs = taken(expected, self.kwargs)

        def flat(*arrays: Any) -> list[Any]:
            return jax.tree.leaves(expected(*_with_arrays(self.args, arrays), **kwargs))

        with contextlib.suppress(Exception):  # such as a reference that fixes dtypes, or uses numpy
            return reference_function(flat, self.given, {})(self.given, seed)
        with jax.default_matmul_precision("highest"):
            return tuple(map(exact_array, flat(*map(jnp.asarray, self.given)))), ()


def traced_call(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    target: Chip,
    axes: Axes,
    root: Path,
) -> TracedCall:
    """Trace `function(*args, **kwargs)` for a chip, or for a mesh of such chips with these `axes`.

    Raises KernelFault if it can't be traced, or has no kernel; ValueError for a wrong argument.
    """
    __tracebackhide__ = True
    given = [_checked_array(leaf) for leaf in jax.tree.leaves(tuple(args)) if _is_array(leaf)]
    out_trees: list[Any] = []

    def flat(*arrays: Any) -> list[Any]:
        results, out_tree = jax.tree.flatten(function(*_with_arrays(args, arrays), **kwargs))
        out_trees[:] = [out_tree]
        return results

    about = _about(function, given, kwargs)
    shapes = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in given]
    source = _source_of(function)
    try:
        with for_chip(target.kind, target.cores, axes):
            launch = TracedLaunch.of(flat, shapes, {})
            source = _source_of_kernels(launch, root) or source
            trace, scratch = _with_scratch(launch.trace(source.file), launch.unused_outputs())
    except Exception as error:
        source = _source_of_error(error) or source
        problem = problem_of(error, source, Stage.TRACE)
        advice = _ADVICE if _in_pallas(error) else _OUTSIDE
        finding = raised_finding(problem, _shown(source.file, root), advice)
        raise KernelFault(finding, about) from error
    if not trace.calls:
        told = "The function launches no pallas_call and no pl.kernel for a TPU."
        raise KernelFault(Finding(Check.PALLAS_USED, "launches no kernel", told), about)
    names = _names(function, args)
    return TracedCall(
        function, tuple(args), kwargs, target, axes, launch, trace, source,
        _shown(source.file, root), tuple(given), names, out_trees[0], about, scratch,
    )  # fmt: skip


def _with_scratch(
    trace: Trace, unused: Sequence[Sequence[int]]
) -> tuple[Trace, tuple[Operand, ...]]:
    """The trace, in which outputs that nothing uses are each step's own; and these outputs.

    Older kernels have them in the place of scratch, which each core has for itself.
    """
    calls: list[KernelCall] = []
    scratch: list[Operand] = []
    for call, numbers in zip(trace.calls, unused, strict=True):
        outputs = call.role(Role.OUTPUT)
        own = [outputs[number] for number in numbers if number < len(outputs)]
        every = tuple(range(len(call.grid)))
        operands = tuple(
            dataclasses.replace(operand, axes=every)
            if any(operand is one for one in own)
            else operand
            for operand in call.operands
        )
        scratch += own
        calls.append(dataclasses.replace(call, operands=operands))
    return dataclasses.replace(trace, calls=tuple(calls)), tuple(scratch)


def _with_arrays(args: Sequence[Any], arrays: Sequence[Any]) -> Any:
    """The arguments with these in the place of their arrays."""
    rest = iter(arrays)
    return jax.tree.map(lambda leaf: next(rest) if _is_array(leaf) else leaf, tuple(args))


def _shown(file: str, root: Path) -> str:
    """A file as messages show it: relative to the root if it is below it."""
    shown = os.path.relpath(file, root) if file else "?"
    return file if shown.startswith("..") else shown


def _is_array(leaf: Any) -> bool:
    return hasattr(leaf, "shape") and hasattr(leaf, "dtype")


def is_floating(leaf: Any) -> bool:
    return _is_array(leaf) and bool(jnp.issubdtype(leaf.dtype, jnp.floating))


def _checked_array(leaf: Any) -> Any:
    """A numpy array with the dtype that jax gives it, or a ShapeDtypeStruct. Raises ValueError."""
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        raise ValueError("an argument is a random key: pass jax.random.key_data(key), and wrap it")
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return leaf
    return np.asarray(jnp.asarray(leaf))


def _input(array: Any) -> Array:
    """An array as bytes, without contents if it has none."""
    if isinstance(array, jax.ShapeDtypeStruct):
        return Array(array.dtype.name, array.shape, b"")
    return from_numpy(array)


def _source_of(function: Any) -> SourceFile:
    """The file of a function; empty if it has none."""
    inner = inspect.unwrap(function)
    while isinstance(inner, functools.partial):
        inner = inspect.unwrap(inner.func)
    return _read(getattr(getattr(inner, "__code__", None), "co_filename", ""))


_JAX = Path(jax.__file__).parent
#: The folders of jax and of this package, whose frames surround those of the user.
_AROUND = (str(_JAX), str(_JAX.parent / "jaxlib"), str(Path(__file__).parents[1]))


def _is_users(file: str) -> bool:
    """Whether a frame's file is neither jax's nor ours nor Python's own."""
    if file.startswith(_AROUND):
        return False
    return "site-packages" in file or not file.startswith((sysconfig.get_path("stdlib"), "<"))


def _source_of_error(error: BaseException) -> SourceFile | None:
    """The file of the innermost frame of the user's, or of a library, that raised an exception."""
    frames = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    return next((_read(file) for file in reversed(frames) if _is_users(file)), None)


def _in_pallas(error: BaseException) -> bool:
    """Whether an exception was raised while Pallas traced a kernel or an index map."""
    frames = (frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__))
    return any(file.startswith(str(_JAX / "_src" / "pallas")) for file in frames)


def _source_of_kernels(launch: TracedLaunch, root: Path) -> SourceFile | None:
    """The file of the first kernel's body, and others whose lines messages quote."""
    files = [file for file in launch.kernel_files() if Path(file).is_file()]
    if not files:
        return None
    first, *others = map(_read, files)
    shown = (dataclasses.replace(other, shown=_shown(other.file, root)) for other in others)
    return dataclasses.replace(first, others=tuple(shown))


def _read(file: str) -> SourceFile:
    try:
        return SourceFile(file, Path(file).read_bytes())
    except OSError:
        return SourceFile(file, b"")


def _about(function: Any, given: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """The call in one line: "matmul bfloat16[256,512] bfloat16[512,256] bm=128"."""
    while isinstance(function, functools.partial):
        kwargs, function = {**function.keywords, **kwargs}, function.func
    name = getattr(function, "__name__", "the function")
    arrays = [f"{array.dtype}[{','.join(map(str, array.shape))}]" for array in given]
    words = [f"{key}={_brief(value)}" for key, value in kwargs.items()]
    return textwrap.shorten(" ".join([name, *arrays, *words]), 300, placeholder=" …")


def _brief(value: Any) -> str:
    """A static argument; a long one by its class."""
    text = str(value)
    return text if len(text) <= 40 else f"{type(value).__name__}(…)"


def _names(function: Any, args: Sequence[Any]) -> tuple[str, ...]:
    """The names of the traced arguments, such as "x" and "params['w']"."""
    try:
        parameters = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        parameters = []
    paths, _ = jax.tree_util.tree_flatten_with_path(tuple(args))

    def name(path: tuple[Any, ...]) -> str:
        number = path[0].idx
        first = parameters[number] if number < len(parameters) else f"argument {number}"
        return first + jax.tree_util.keystr(path[1:])

    return tuple(name(path) for path, leaf in paths if _is_array(leaf))


def taken(function: Callable[..., Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords that a function takes; a reference often takes fewer than the kernel."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return dict(kwargs)
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values()):
        return dict(kwargs)
    return {name: value for name, value in kwargs.items() if name in parameters}


def exact_array(value: Any) -> Array:
    """An array as bytes; floating ones in float64."""
    array = np.asarray(value)
    return from_numpy(array.astype(np.float64) if array.dtype.name in ROUNDOFF else array)
