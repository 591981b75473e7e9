"""Compiles with libtpu in a child process, for any caller.

The process that compiles for another one: `compile_process` starts it and asks it.
It reads questions from its standard input and writes answers to what was its standard output, each
with its length before it. It ends when its input does. What libtpu prints goes to a file.

The TPU's compiler in a process of its own, for callers who may have done anything before.
libtpu reads once per process where it writes its listings, and jax may have loaded it already; and
there are kernels at which it aborts, and its process with it. So `predictions` compiles in a child,
which is started at the first question, answers all others, and is started anew where it has died.
It ends with the process that asks.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from pallascope.model import KernelCall
from pallascope.tools import codec
from pallascope.tpu import compiler
from pallascope.tpu.chips import Chip, named
from pallascope.tpu.compiler import Build, Estimate, computing, not_estimated
from pallascope.tpu.libtpu import CompilerUnavailable, why_not
from pallascope.tpu.libtpu_errors import LibtpuRefusal, read_abort, read_lowering_error
from pallascope.tpu.lowered_programs import LoweredProgram, lowered_again, program_of

if TYPE_CHECKING:
    from pallascope.kernels.lowering import TracedKernel


_LENGTH = struct.Struct("!Q")


@dataclass(frozen=True, slots=True)
class AskBuild:
    """What does the compiler make of the one kernel in this program?"""

    program: LoweredProgram
    call: KernelCall
    chip: str


@dataclass(frozen=True, slots=True)
class AskEstimate:
    """What does XLA expect of this program?"""

    program: LoweredProgram
    chip: str


@dataclass(frozen=True, slots=True)
class Unavailable:
    """There is no compiler here."""

    reason: str


Question = AskBuild | AskEstimate
Answer = Build | Estimate | Unavailable


def send(stream: IO[bytes], message: bytes) -> None:
    """Write one message. Raises OSError where nobody reads any more."""
    stream.write(_LENGTH.pack(len(message)) + message)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes:
    """Read one message. Raises EOFError where there is no whole one."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    message = stream.read(length)
    if len(message) < length:
        raise EOFError
    return message


def main() -> None:
    """Answer until there are no more questions."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for the process that asks, which ends this one
    with os.fdopen(os.dup(0), "rb") as questions, os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)
        with contextlib.suppress(EOFError, BrokenPipeError):
            while True:
                question = codec.unpack(Question, receive(questions))
                send(answers, codec.pack(_answer(question)))
    shutil.rmtree(tempfile.gettempdir(), ignore_errors=True)  # its own, by TMPDIR
    os._exit(0)  # libtpu's threads are in no hurry


def _answer(question: Question) -> Answer:
    chip = named(question.chip)
    try:
        if isinstance(question, AskEstimate):
            return compiler.estimated(lambda: lowered_again(question.program, chip))
        return compiler.built(lambda: lowered_again(question.program, chip), question.call, chip)
    except CompilerUnavailable as error:
        return Unavailable(str(error))


_ROOT = Path(__file__).parents[2]
_ENVIRONMENT = {"JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "1"}
#: Only what can't be imported otherwise is added to the path, and at its end.
_CODE = """
import sys
sys.path += [each for each in {path!r} if each not in sys.path]
from pallascope.tpu.compile_process import main
main()
"""


def start() -> None:
    """Start the child, which takes a second, before there is a question."""
    with contextlib.suppress(CompilerUnavailable, OSError):
        _demand_libtpu()
        _of_this_process().start()


def build(kernel: TracedKernel, chip: Chip) -> Build:
    """What `compiler.build` finds out about a kernel. An abort of the compiler is a failure.

    Raises CompilerUnavailable.
    """
    _demand_libtpu()
    try:
        program = program_of(kernel.function, kernel.arguments, chip)
    except Exception as error:
        return Build(chip.name, failure=read_lowering_error(error))
    answer = _of_this_process().answer(AskBuild(program, kernel.call, chip.name))
    if isinstance(answer, LibtpuRefusal):
        return Build(chip.name, failure=answer)
    assert isinstance(answer, Build), answer
    return answer


def xla_cycles(
    function: Callable[..., Any], args: Sequence[Any], chip: Chip, **keywords: Any
) -> Estimate:
    """What `compiler.xla_cycles` finds out about a function without Pallas.

    Raises CompilerUnavailable.
    """
    _demand_libtpu()

    def plain(*arrays: Any) -> Any:
        return function(*arrays, **keywords)

    try:
        program, least = program_of(plain, args, chip), computing(plain, args, chip)
    except Exception as error:
        return not_estimated(error)
    answer = _of_this_process().answer(AskEstimate(program, chip.name))
    if isinstance(answer, LibtpuRefusal):
        return Estimate(0, answer.message)
    assert isinstance(answer, Estimate), answer
    return dataclasses.replace(answer, computing=least)


def _demand_libtpu() -> None:
    if reason := why_not():
        raise CompilerUnavailable(reason)


class _Child:
    """One process after another; at most one at a time, which answers one question at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: _Running | None = None

    def start(self) -> None:
        with self._lock:
            self._running = self._running or _Running()

    def answer(self, question: Question) -> Answer | LibtpuRefusal:
        """Raises CompilerUnavailable where the child can't start or has no libtpu."""
        with self._lock:
            running = self._running = self._running or _Running()
            try:
                answer = running.answer(question)
            except (EOFError, BrokenPipeError):
                self._running = None
                return running.abort()
            except BaseException:
                self._running = None  # an answer may be under way that nobody waits for any more
                running.end()
                raise
        if isinstance(answer, Unavailable):
            raise CompilerUnavailable(answer.reason)
        return answer


class _Running:
    """A child that has been started; its temporary files and what it prints are in one folder."""

    def __init__(self) -> None:
        folder = tempfile.mkdtemp(prefix="pallas-katas-compile-")
        self._printed = Path(folder, "printed")
        with self._printed.open("wb") as printed:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _CODE.format(path=[str(_ROOT), *sys.path])],
                env={**os.environ, **_ENVIRONMENT, "TMPDIR": folder},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=printed,
            )
        self.end = weakref.finalize(self, _end, self._process, folder, os.getpid())

    def answer(self, question: Question) -> Answer:
        """Raises EOFError or BrokenPipeError where the child has died."""
        assert self._process.stdin, "it was started with pipes"
        assert self._process.stdout, "it was started with pipes"
        send(self._process.stdin, codec.pack(question))
        return codec.unpack(Answer, receive(self._process.stdout))

    def abort(self) -> LibtpuRefusal:
        """What the child died of. Raises CompilerUnavailable unless the compiler gave up."""
        code = self._process.wait()
        printed = self._printed.read_text(encoding="utf-8", errors="replace")
        self.end()
        if failure := read_abort(code, printed):
            return failure
        last = (printed.strip().splitlines() or [f"exit code {code}"])[-1]
        raise CompilerUnavailable(f"the process that compiles has ended: {last}")


def _end(process: subprocess.Popen[bytes], folder: str, owner: int) -> None:
    """Stop a child; not from a fork of the process that has started it."""
    if os.getpid() != owner:
        return
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):
            if stream:
                stream.close()
    shutil.rmtree(folder, ignore_errors=True)


def _of_this_process() -> _Child:
    return _child(os.getpid())


@functools.cache
def _child(_process: int) -> _Child:
    return _Child()
