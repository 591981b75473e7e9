"""Compiles with libtpu in a child process, for any caller.

libtpu reads the folder for its listings only once per process, and jax may have loaded libtpu
already. Some kernels make libtpu abort, which ends its process. So `predictions` compiles in a
child process, which starts with the first question, answers all others, and is replaced if it dies.

`main` runs in the child. libtpu's output goes to the child's file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pallascope.model import KernelCall
from pallascope.tools import codec
from pallascope.tools.child_process import ChildEnded, ChildProcess, ParentConnection
from pallascope.tpu import compiler
from pallascope.tpu.chips import Chip, named
from pallascope.tpu.compiler import Build, Estimate, min_compute_seconds, no_estimate
from pallascope.tpu.hlo import LoweredProgram, lower_for_chip, program_of
from pallascope.tpu.libtpu import CompilerUnavailable, unavailable_reason
from pallascope.tpu.libtpu_errors import LibtpuRefusal, read_abort, read_lowering_error

if TYPE_CHECKING:
    from pallascope.kernels.lowering import TracedKernel


@dataclass(frozen=True, slots=True)
class AskBuild:
    """Asks for the compiler's result for the one kernel in this program."""

    program: LoweredProgram
    call: KernelCall
    chip: str


@dataclass(frozen=True, slots=True)
class AskEstimate:
    """Asks for XLA's estimate for this program."""

    program: LoweredProgram
    chip: str


@dataclass(frozen=True, slots=True)
class Unavailable:
    """The compiler isn't available."""

    reason: str


Question = AskBuild | AskEstimate
Answer = Build | Estimate | Unavailable


def main() -> None:
    """Answer questions until the parent ends."""
    parent = ParentConnection()
    while True:
        parent.send(codec.pack(_answer(codec.unpack(Question, parent.receive()))))


def _answer(question: Question) -> Answer:
    chip = named(question.chip)
    try:
        if isinstance(question, AskEstimate):
            return compiler.estimate_lowered(lambda: lower_for_chip(question.program, chip))
        return compiler.compile_lowered(
            lambda: lower_for_chip(question.program, chip), question.call, chip
        )
    except CompilerUnavailable as error:
        return Unavailable(str(error))


_ENVIRONMENT = {"JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "1"}


def start() -> None:
    """Start the child, which takes a second, before the first question."""
    with contextlib.suppress(CompilerUnavailable, OSError):
        _demand_libtpu()
        _compiler_child(os.getpid()).start()


def build(kernel: TracedKernel, chip: Chip) -> Build:
    """Call `compiler.build` in the child. An abort of the compiler is a failure.

    Raises CompilerUnavailable.
    """
    _demand_libtpu()
    try:
        program = program_of(kernel.function, kernel.arguments, chip)
    except Exception as error:
        return Build(chip.name, failure=read_lowering_error(error))
    answer = _compiler_child(os.getpid()).answer(AskBuild(program, kernel.call, chip.name))
    if isinstance(answer, LibtpuRefusal):
        return Build(chip.name, failure=answer)
    assert isinstance(answer, Build), answer
    return answer


def xla_cycles(
    function: Callable[..., Any], args: Sequence[Any], chip: Chip, **keywords: Any
) -> Estimate:
    """Call `compiler.xla_cycles` in the child.

    Raises CompilerUnavailable.
    """
    _demand_libtpu()

    def plain(*arrays: Any) -> Any:
        return function(*arrays, **keywords)

    try:
        program, least = program_of(plain, args, chip), min_compute_seconds(plain, args, chip)
    except Exception as error:
        return no_estimate(error)
    answer = _compiler_child(os.getpid()).answer(AskEstimate(program, chip.name))
    if isinstance(answer, LibtpuRefusal):
        return Estimate(0, answer.message)
    assert isinstance(answer, Estimate), answer
    return dataclasses.replace(answer, computing=least)


def _demand_libtpu() -> None:
    if reason := unavailable_reason():
        raise CompilerUnavailable(reason)


class _CompilerChild:
    """The current child, which answers one question at a time and is replaced if it dies."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._child: ChildProcess | None = None

    def start(self) -> None:
        with self._lock:
            self._started()

    def _started(self) -> ChildProcess:
        if self._child is None:
            self._child = ChildProcess.running(__name__, {**os.environ, **_ENVIRONMENT})
        return self._child

    def answer(self, question: Question) -> Answer | LibtpuRefusal:
        """The answer, or a refusal if the compiler has aborted.

        Raises CompilerUnavailable if the child can't start or has no libtpu.
        """
        with self._lock:
            child = self._started()
            try:
                child.send(question)
                answer = child.answer(Answer)
            except ChildEnded as error:
                self._child = None
                if failure := read_abort(error.code, error.printed):
                    return failure
                reason = f"the process that compiles has ended: {error.last_line}"
                raise CompilerUnavailable(reason) from None
            except BaseException:
                self._child = None  # otherwise the next question would get this one's answer
                child.close()
                raise
        if isinstance(answer, Unavailable):
            raise CompilerUnavailable(answer.reason)
        return answer


@functools.cache
def _compiler_child(_process: int) -> _CompilerChild:
    """The child of this process, by process number: after a fork, the new process has another."""
    return _CompilerChild()
