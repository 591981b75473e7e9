"""The worker that imports a learner's file, traces its launch (without the spec) or runs its test.

It gets shapes and dtypes, never the inputs' values or the expected results, and it returns the
trace as inert bytes. Other processes judge that trace, so nothing that the file does to this
process can change its grade. The file's visible test passes the launch function to
`hidden_case.grade`. A learner's test gets a launch that asks the pool for each result: the kernels
under test are not in this process."""

from __future__ import annotations

import ast
import bdb
import dataclasses
import re
import sys
import threading
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from beartype import beartype
from jax.sharding import AbstractMesh
from jaxtyping import TypeCheckError, jaxtyped

from grader.exercise.key_tables import MESH
from grader.exercise.specs import spec_disabled
from grader.sandbox.messages import (
    Answer,
    FinishedTest,
    LaunchCalled,
    Question,
    Returned,
    Traced,
    TraceLaunch,
    TryTest,
)
from pallascope.kernels import TracedLaunch
from pallascope.model import SourceFile, Stage
from pallascope.runs import exception_reports, warmup
from pallascope.runs.exception_reports import MissingGradeCall
from pallascope.runs.launch_runs import traced_on
from pallascope.runs.questions import Warm, Warmed
from pallascope.tools.arrays import dtype_of, from_numpy, to_numpy
from pallascope.tools.files import load_source
from pallascope.tools.text import shortened


class NoDebugger(Exception):
    """Raised at a line that would start a debugger."""


class TooManyThreads(Exception):
    """Raised at the start of another Python thread. The stacks of a thousand fill the memory that
    a process may use, and then it can't answer."""


class MakesCode(Exception):
    """Raised where a file compiles, executes or copies code: its lines would be those of others."""


#: By Python's audit event: the way in which a file makes code.
_MAKING_CODE = {
    "compile": "it compiles a text",
    "exec": "it executes a code object",
    "code.__new__": "it makes a code object",
    "function.__new__": "it makes a function of a code object",
}
#: The learners' files that this process has imported.
_FILES: set[str] = set()


def _audit(event: str, _: object) -> None:
    if event in _MAKING_CODE and sys._getframe(1).f_code.co_filename in _FILES:
        raise MakesCode(_MAKING_CODE[event])


#: Python threads that a file may have at a time. No launch needs any.
MAX_THREADS = 128


def refuse() -> None:
    """Make debuggers raise NoDebugger in this process, many threads TooManyThreads, and files that
    make code MakesCode.

    Debuggers are `breakpoint()`, `pdb.set_trace()` and all others that are built on Python's bdb,
    and `jax.debug.breakpoint()`.
    """
    bdb.Bdb.set_trace = _refuse
    jax.debug.breakpoint = _refuse
    sys.addaudithook(_audit)
    start = threading.Thread.start

    def start_if_few(self: threading.Thread) -> None:
        if threading.active_count() > MAX_THREADS:
            raise TooManyThreads(f"{MAX_THREADS} threads are running")
        start(self)

    threading.Thread.start = start_if_few


def _refuse(*_: Any, **__: Any) -> None:
    raise NoDebugger("kernels run in a process without a terminal")


class _Case:
    """The argument of a kata's visible test, which passes the launch function to `grade`."""

    def __init__(self) -> None:
        self.launch: Callable[..., Any] | None = None

    def grade(self, launch: Callable[..., Any]) -> None:
        """Grade a launch function: `hidden_case.grade(constant_add)`."""
        self.launch = launch


def handed_over(module: ModuleType | None, name: str) -> Callable[..., Any]:
    """The function that the kata's visible test passes to `grade`. Raises MissingGradeCall."""
    case = _Case()
    test = getattr(module, f"test_{name}", None)
    if test is None:
        raise MissingGradeCall(f"the file has lost its test: def test_{name}(hidden_case): …")
    try:
        test(case)
    except NameError as error:
        raise MissingGradeCall(_missing(name, error)) from error
    if case.launch is None:
        raise MissingGradeCall(f"test_{name} does not call hidden_case.grade({name})")
    if not callable(case.launch):
        kind = type(case.launch).__name__
        raise MissingGradeCall(
            f"test_{name} grades {name}, which is of type {kind}, not a function"
        )
    return case.launch


def _missing(name: str, error: NameError) -> str:
    missing = error.name or name
    return f"the file defines no function {missing}, which test_{name} grades"


#: Sends a call to the pool, and waits for its results.
Ask = Callable[[LaunchCalled], Returned]


class LaunchFailed(Exception):
    """The kernel under test raised this error."""


def launch_by(ask: Ask) -> Callable[..., Any]:
    """A launch that takes arrays, and whole numbers by name, and gets its results from the pool."""

    def launch(*arrays: Any, **keywords: int) -> Any:
        for name, size in keywords.items():
            if type(size) is not int:
                raise TypeError(f"{name}={size!r}: block sizes are whole numbers")
        inputs = tuple(from_numpy(np.asarray(array)) for array in arrays)
        returned = ask(LaunchCalled(inputs, keywords))
        if returned.error:
            raise LaunchFailed(returned.error)
        results = tuple(jnp.asarray(to_numpy(array)) for array in returned.outputs)
        return results[0] if len(results) == 1 else results

    return launch


def tried(source: SourceFile, module: ModuleType, name: str, ask: Ask) -> FinishedTest:
    """Call the learner's test of a file with a launch of the pool."""
    with exception_reports.caught(source, Stage.IMPORT) as caught:
        test = handed_over(module, name)
    if caught.problem:
        return FinishedTest(caught.problem)
    with exception_reports.caught(source, Stage.RUN) as caught:
        test(launch_by(ask))
    return FinishedTest(caught.problem)


class Tracer:
    """Imports one file once, and traces its launch or calls its test.

    The test calls `ask` to have the pool run a kernel under test.
    """

    def __init__(self, ask: Ask) -> None:
        self._module: ModuleType | None = None
        self._ask = ask
        refuse()

    def answer(self, question: Question) -> Answer:
        match question:
            case TraceLaunch():
                return self._traced(question)
            case TryTest():
                return self._tried(question)
            case Warm():
                warmup.trace()
                return Warmed()
        raise TypeError(f"a tracing worker got a question {type(question).__name__}")

    def _tried(self, question: TryTest) -> FinishedTest:
        with exception_reports.caught(question.source, Stage.IMPORT) as caught:
            _without_the_grader(question.source)
            self._module = self._module or loaded(question.source)
        if caught.problem or self._module is None:
            return FinishedTest(caught.problem)
        return tried(question.source, self._module, question.name, self._ask)

    def _traced(self, question: TraceLaunch) -> Traced:
        with exception_reports.caught(question.source, Stage.IMPORT) as caught:
            if question.predicts:
                _without_the_grader(question.source)
            self._module = self._module or loaded_for(question)
            function = handed_over(self._module, question.name)
        if caught.problem or self._module is None:
            return Traced(caught.problem)
        broken, trace = "", b""
        with (
            exception_reports.caught(question.source, Stage.TRACE) as caught,
            spec_disabled(self._module, question.name, _refusal(question.name)),
        ):
            try:
                trace = traced(_checked(function), question)
            except TypeCheckError as error:
                broken = shortened(str(error))
                trace = traced(function, question)
        return Traced(caught.problem, trace, broken)


def loaded(source: SourceFile) -> ModuleType:
    """Import a file as a module. Raises the file's exceptions."""
    _FILES.add(source.file)
    return load_source(source.file, source.content)


def loaded_for(question: TraceLaunch) -> ModuleType:
    """The same, with one chip of the launch's target device as jax's device."""
    with traced_on(dataclasses.replace(question.device, mesh=())):
        return loaded(question.source)


def traced(function: Callable[..., Any], question: TraceLaunch) -> bytes:
    """The trace of a launch, as bytes. Raises NotSerializable, and the exceptions of tracing."""
    inputs = [jax.ShapeDtypeStruct(a.shape, dtype_of(a.dtype)) for a in question.inputs]
    with traced_on(question.device):
        mesh = jax.sharding.get_abstract_mesh()
        keywords = {**question.keywords, **({MESH: mesh} if question.device.mesh else {})}
        # Users call a launch without a mesh in context, so shard_map has to be given the mesh.
        alone = AbstractMesh((), (), abstract_device=mesh.abstract_device)
        with jax.sharding.use_abstract_mesh(alone):
            return TracedLaunch.of(function, inputs, keywords).dumped()


def _checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The launch function with a check of its annotations at each call: named axes must agree.

    A wrapper, such as `jax.jit`, has no annotations; its results are compared all the same.
    """
    if not isinstance(function, FunctionType):
        return function
    return jaxtyped(function, typechecker=beartype)


_GRADER = re.compile(r"(grader|pallascope)(\.\w+)*")


def _without_the_grader(source: SourceFile) -> None:
    """Raises ImportError if the file of predictions, or of a test, imports the grader's packages:
    they compute the numbers that it is asked for."""
    try:
        nodes = list(ast.walk(ast.parse(source.content)))
    except (SyntaxError, ValueError):
        return  # the import of the file raises it
    for node in nodes:
        match node:
            case ast.Import():
                names = [alias.name for alias in node.names]
            case ast.ImportFrom():
                names = [node.module or ""]
            case ast.Constant(value=str(text)):
                names = [text]
            case _:
                continue
        if found := next(filter(_GRADER.fullmatch, names), ""):
            raise ImportError(f"line {node.lineno}: this kata's file may not import {found}")


def _refusal(name: str) -> exception_reports.MissingGradeCall:
    return exception_reports.MissingGradeCall(
        f"it calls {name}_spec, which only defines the required result"
    )
