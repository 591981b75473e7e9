"""The process that compiles for another one: `compile_apart` starts it and asks it.

It reads questions from its standard input and writes answers to what was its standard output, each
with its length before it. It ends when its input does. What libtpu prints goes to a file.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import struct
import tempfile
from dataclasses import dataclass
from typing import IO

from grader.model import KernelCall
from grader.tools import codec
from grader.tpu import compiler
from grader.tpu.chips import named
from grader.tpu.compiler import Build, CompilerUnavailable, Estimate
from grader.tpu.programs import Program, lowered_again

_LENGTH = struct.Struct("!Q")


@dataclass(frozen=True, slots=True)
class AskBuild:
    """What does the compiler make of the one kernel in this program?"""

    program: Program
    call: KernelCall
    chip: str


@dataclass(frozen=True, slots=True)
class AskEstimate:
    """What does XLA expect of this program?"""

    program: Program
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
