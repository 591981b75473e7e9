"""A process that imports one kata and tells what it observes of its kernels. Judges nothing.

Everything that the learner's code can do to a process may happen here: it is the bench that
notices. What is printed goes to two files in the bench's folder, named by process number.
"""

from __future__ import annotations

import contextlib
import dataclasses
import faulthandler
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
from beartype import beartype
from jaxtyping import TypeCheckError, jaxtyped

from grader import kernels
from grader.exercise import specs
from grader.exercise.unspoken import without_spec
from grader.model import Array, Clues, Mode, Observation, Stage
from grader.sandbox import debuggers, problems, warming
from grader.sandbox.messages import (
    Answer,
    Ask,
    Closed,
    Hello,
    NoEstimate,
    Task,
    Warmed,
    receive,
    send,
)
from grader.tools import arrays, codec
from grader.tools.modules import load_module
from grader.tpu import OnChip, Prediction, predictions
from grader.tpu.chips import named
from grader.tpu.compiler import CompilerUnavailable, xla_cycles
from grader.tpu.motion import Followed, Motion, motions

MEMORY_LIMIT = 8 << 30  # bytes of private memory; grading a matmul takes about 5 % of it


def main(bench: socket.socket, folder: str) -> None:
    """Answer the bench's questions until it hangs up."""
    # Cached bytecode goes by size and second: an edit right after another would be missed.
    sys.dont_write_bytecode = True
    out, err = _redirect(Path(folder))
    tempfile.tempdir = folder  # what a worker that is killed leaves behind goes with the bench
    faulthandler.enable(err)
    faulthandler.register(signal.SIGUSR1, err, all_threads=True)
    _limit_memory()
    jax.config.update("jax_traceback_filtering", "off")
    debuggers.refuse()
    worker = _Worker(out)
    try:
        send(bench, codec.pack(Hello(jax.default_backend(), jax.__version__)))
        while True:
            send(bench, codec.pack(worker.answer(codec.unpack(Ask, receive(bench)))))
    except Closed:
        return


def _redirect(folder: Path) -> tuple[Path, Any]:
    out, err = (folder / f"{os.getpid()}.{end}" for end in ("out", "err"))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    for file, fd in ((out, 1), (err, 2)):
        opened = os.open(file, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o600)
        os.dup2(opened, fd)
    return out, sys.__stderr__


def _limit_memory() -> None:
    """Let growth without end fail in this process instead of on the learner's machine.

    On Linux, and on the CPU: drivers of accelerators map far more than they use.
    """
    if sys.platform == "linux" and os.environ.get("JAX_PLATFORMS") == "cpu":
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_LIMIT, MEMORY_LIMIT))


class _Case:
    """What a kata's visible test receives: it hands over the launch function, no more."""

    def __init__(self) -> None:
        self.launch: Callable[..., Any] | None = None

    def grade(self, launch: Callable[..., Any]) -> None:
        """Grade a launch function: `hidden_case.grade(constant_add)`."""
        self.launch = launch


class _Worker:
    """One process's memory: the module it has imported and the launch it has traced last."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._module: ModuleType | None = None
        self._launch: kernels.TracedLaunch | None = None
        self._saw_nan = False  # in what that launch returned

    def answer(self, ask: Ask) -> Answer:
        match ask.task:
            case Task.REFERENCE | Task.INPUTS:
                return self._reference(ask)
            case Task.ATTEMPT:
                return self._attempt(ask)
            case Task.EXPLAIN:
                return self._clues(ask)
            case Task.PREDICT:
                return self._on_chip(ask)
            case Task.WARM:
                return self._warm(ask)
            case Task.FOLLOW:
                return self._followed(ask)
            case Task.XLA:
                return self._xla(ask)

    def _reference(self, ask: Ask) -> Answer:
        with problems.caught(ask.file, Stage.IMPORT) as caught:
            # The file may have changed since another case; references are few and imports cheap.
            solution = load_module(Path(ask.file))
            evaluated = ask.task is Task.REFERENCE
            return specs.reference(solution, ask.name, ask.case, evaluated)
        return caught.problem

    def _warm(self, ask: Ask) -> Answer:
        with problems.caught(ask.file, Stage.RUN) as caught:
            with kernels.running(*_how(ask)):
                warming.run()
            warming.compile_for(ask.chips)
        self._printed()
        return caught.problem or Warmed()

    def _xla(self, ask: Ask) -> Answer:
        """XLA's estimate for the spec; none where its compiler can't be had."""
        values = list(map(specs.argument, ask.inputs))
        with problems.caught(ask.file, Stage.IMPORT) as caught:
            spec, keywords = specs.spec_of(load_module(Path(ask.file)), ask.name, ask.case)
            with contextlib.suppress(CompilerUnavailable):
                return xla_cycles(spec, values, named(ask.chips[0]), **keywords)
        return caught.problem or NoEstimate()

    def _attempt(self, ask: Ask) -> Observation:
        observed = self._observe(ask)
        printed, complaints = problems.complaints(self._printed())
        return dataclasses.replace(observed, printed=printed, complaints=complaints)

    def _observe(self, ask: Ask) -> Observation:
        self._launch, self._saw_nan = None, False
        with problems.caught(ask.file, Stage.IMPORT) as caught:
            self._module = self._module or load_module(Path(ask.file))
            function = _graded(self._module, ask.name)
        if caught.problem:
            return Observation(problem=caught.problem)
        values = [arrays.to_numpy(array) for array in ask.inputs]
        trace, broken = None, ""
        with (
            problems.caught(ask.file, Stage.TRACE) as caught,
            kernels.running(*_how(ask)),
            _without_spec(self._module, ask.name),
        ):
            try:
                self._launch = kernels.TracedLaunch(_checked(function), values, ask.keywords)
            except TypeCheckError as error:
                broken = str(error)
                self._launch = kernels.TracedLaunch(function, values, ask.keywords)
            trace = self._launch.trace(ask.file, f"{ask.name}_spec")
        if caught.problem or broken or self._launch is None:
            return Observation(problem=caught.problem, trace=trace, broken_annotation=broken)
        outputs = ()
        with problems.caught(ask.file, Stage.RUN) as caught, kernels.running(*_how(ask)):
            results = self._launch.run(values)
            self._saw_nan = any(bool((result != result).any()) for result in results)
            outputs = tuple(map(arrays.from_numpy, results))
        return Observation(problem=caught.problem, trace=trace, outputs=outputs)

    def _clues(self, ask: Ask) -> Clues:
        """Look closer at a launch whose result was wrong. What can't be had stays empty.

        What it makes of zeros in unwritten memory is of use only where NaN came of it.
        """
        values = [arrays.to_numpy(array) for array in ask.inputs]
        walk, shares = None, ()
        with problems.caught(ask.file, Stage.RUN):
            trace = self._launch.trace() if self._launch else None
            walk = self._launch.walk() if self._launch else None
            # The learner's own copy of the spec will do: this explains a verdict, no more.
            spec = getattr(self._module, f"{ask.name}_spec")
            shares = specs.shares(spec, values, ask.keywords, trace.calls if trace else ())
        with_zeros = self._with_zeros(ask, values) if self._saw_nan else ()
        self._printed()
        return Clues(walk, with_zeros, shares)

    def _with_zeros(self, ask: Ask, values: list[Any]) -> tuple[Array, ...]:
        with problems.caught(ask.file, Stage.RUN), kernels.running(*_how(ask), unwritten="zero"):
            launch = kernels.TracedLaunch(_graded(self._module, ask.name), values, ask.keywords)
            return tuple(map(arrays.from_numpy, launch.run(values)))
        return ()

    def _on_chip(self, ask: Ask) -> OnChip:
        """Of the learner's launch or of a solution's: the way to a TPU, as far as it leads."""
        values = list(map(specs.argument, ask.inputs))
        found: list[Prediction] = []
        with problems.caught(ask.file, Stage.IMPORT) as caught:
            function = _graded(self._module or load_module(Path(ask.file)), ask.name)
        if caught.problem:
            return OnChip(caught.problem)
        with problems.caught(ask.file, Stage.LOWER) as caught:
            for name in ask.chips:
                found += predictions(
                    function, *values, chip=name, events=ask.events, **ask.keywords
                )
        self._printed()  # what a trace prints was shown when the kernel ran
        return OnChip(caught.problem, tuple(found))

    def _followed(self, ask: Ask) -> Followed:
        """Of the learner's launch or of a solution's: where its blocks lie, step by step."""
        values = list(map(specs.argument, ask.inputs))
        kernels: tuple[Motion, ...] = ()
        with problems.caught(ask.file, Stage.IMPORT) as caught:
            function = _graded(self._module or load_module(Path(ask.file)), ask.name)
        if caught.problem:
            return Followed(caught.problem)
        with problems.caught(ask.file, Stage.LOWER) as caught:
            kernels = motions(function, *values, chip=ask.chips[0], **ask.keywords)
        self._printed()
        return Followed(caught.problem, kernels)

    def _printed(self) -> str:
        """What was printed since the last look; the file starts anew."""
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        text = self._out.read_text(encoding="utf-8", errors="replace")
        os.truncate(self._out, 0)
        return text


def _how(ask: Ask) -> tuple[Mode, int]:
    return ask.mode, ask.case.seed


@contextlib.contextmanager
def _without_spec(module: ModuleType | None, name: str) -> Iterator[None]:
    """Trace a launch that may not call the spec: that would be right, and teach nothing."""
    if module is None:
        yield
        return
    refusal = problems.NotGraded(f"it calls {name}_spec, which only says what must come back")
    with without_spec(module, name, refusal):
        yield


def _checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The launch function, its annotations checked at each call: named axes must agree."""
    return jaxtyped(function, typechecker=beartype)


def _graded(module: ModuleType | None, name: str) -> Callable[..., Any]:
    """The launch function that the kata's own test hands over."""
    case = _Case()
    test = getattr(module, f"test_{name}", None)
    if test is None:
        raise problems.NotGraded(f"the file has lost its test: def test_{name}(hidden_case): …")
    test(case)
    if case.launch is None:
        raise problems.NotGraded(f"test_{name} does not call hidden_case.grade({name})")
    return case.launch
