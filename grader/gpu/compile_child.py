"""The process that compiles one program for one chip: `compile_apart` starts it.

It reads the question from its standard input, writes the answer to a file, and prints what XLA and
ptxas print.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from grader.gpu.chips import named
from grader.gpu.compiler import Compiled, compile_program, prepare
from grader.gpu.programs import Program
from grader.gpu.refusals import Failure, Kind, read_text
from grader.tools import codec


@dataclass(frozen=True, slots=True)
class Question:
    """What does the compiler make of the kernels in this program?"""

    program: Program
    chip: str


def main(folder: str) -> None:
    """Answer the one question, within a folder that is empty."""
    question = codec.unpack(Question, sys.stdin.buffer.read())
    chip = named(question.chip)
    kernels = prepare(Path(folder))
    try:
        answer = compile_program(question.program, chip, kernels)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        said = read_text(text) or Failure(Kind.INTERNAL, text.partition("\n")[0], text)
        answer = Compiled(chip.name, failure=said)
    Path(folder, "answer").write_bytes(codec.pack(answer))
    sys.stdout.flush()
    os._exit(0)  # XLA's threads are in no hurry
