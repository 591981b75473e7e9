"""From a Python file to the trace of its launch: what the attempting worker does, and no more.

It imports the learner's file. It knows shapes and dtypes, never what the inputs hold nor what must
come back, and what it hands over is a trace as inert bytes: who reads them asks them everything
else. So nothing that the file does to this process can have a say in its grade.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import jax
from beartype import beartype
from jaxtyping import TypeCheckError, jaxtyped

from grader.exercise.keys import MESH
from grader.exercise.unspoken import without_spec
from grader.gpu.chips import named as gpu_named
from grader.gpu.programs import traced_for
from grader.kernels import TracedLaunch, for_chip
from grader.kernels.carrier import make_ready_for_gpus
from grader.model import Axes, Source, Stage
from grader.sandbox import debuggers, problems, warming
from grader.sandbox.handing_over import handed_over
from grader.sandbox.messages import (
    Answer,
    Question,
    Traced,
    TraceLaunch,
    Tried,
    TryTest,
    Warm,
    Warmed,
)
from grader.sandbox.oracle import Ask, tried
from grader.tools.arrays import dtype_of
from grader.tools.modules import load_source
from grader.tools.shortening import shortened
from grader.tpu.chips import named


class Tracer:
    """Traces the launch of one file, which it imports once; or calls its test.

    `ask` is how a test reaches the bench, where the kernels under test are run.
    """

    def __init__(self, ask: Ask) -> None:
        self._module: ModuleType | None = None
        self._ask = ask
        debuggers.refuse()

    def answer(self, question: Question) -> Answer:
        match question:
            case TraceLaunch():
                return self._traced(question)
            case TryTest():
                return self._tried(question)
            case Warm():
                warming.trace()
                return Warmed()
        raise TypeError(f"a worker that traces was asked {type(question).__name__}")

    def _tried(self, question: TryTest) -> Tried:
        with problems.caught(question.source, Stage.IMPORT) as caught:
            self._module = self._module or loaded(question.source)
        if caught.problem or self._module is None:
            return Tried(caught.problem)
        return tried(question.source, self._module, question.name, self._ask)

    def _traced(self, question: TraceLaunch) -> Traced:
        if question.gpu:
            make_ready_for_gpus()  # before the file is imported
        with problems.caught(question.source, Stage.IMPORT) as caught:
            self._module = self._module or loaded_for(question)
            function = handed_over(self._module, question.name)
        if caught.problem or self._module is None:
            return Traced(caught.problem)
        broken, trace = "", b""
        with (
            problems.caught(question.source, Stage.TRACE) as caught,
            without_spec(self._module, question.name, _refusal(question.name)),
        ):
            try:
                trace = traced(_checked(function), question)
            except TypeCheckError as error:
                broken = shortened(str(error))
                trace = traced(function, question)
        return Traced(caught.problem, trace, broken)


def loaded(source: Source) -> ModuleType:
    """The module of a file. Raises what it raises."""
    return load_source(source.file, source.content)


def loaded_for(question: TraceLaunch) -> ModuleType:
    """The same, imported as on the chip that the launch is traced for: one, whatever the mesh."""
    with _target(question, ()):
        return loaded(question.source)


def traced(function: Callable[..., Any], question: TraceLaunch) -> bytes:
    """The trace of a launch, as bytes. Raises what tracing raises, NotCarried."""
    inputs = [jax.ShapeDtypeStruct(a.shape, dtype_of(a.dtype)) for a in question.inputs]
    with _target(question, question.mesh):
        keywords = dict[str, object](question.keywords)
        if question.mesh:
            keywords[MESH] = jax.sharding.get_abstract_mesh()
        return TracedLaunch.of(function, inputs, keywords).dumped()


def _target(question: TraceLaunch, mesh: Axes) -> contextlib.AbstractContextManager[None]:
    """As on the GPU that a launch is traced for, on the TPU, or on a mesh of such TPUs."""
    if question.gpu:
        return traced_for(gpu_named(question.gpu))
    chip = named(question.chip)
    return for_chip(chip.kind, chip.cores, mesh)


def _checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The launch function, its annotations checked at each call: named axes must agree.

    What wraps it, such as `jax.jit`, has none of its own; its results are compared all the same.
    """
    if not isinstance(function, FunctionType):
        return function
    return jaxtyped(function, typechecker=beartype)


def _refusal(name: str) -> problems.NotGraded:
    return problems.NotGraded(f"it calls {name}_spec, which only says what must come back")
