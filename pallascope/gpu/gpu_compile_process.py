"""Compiles for a GPU in a child process.

XLA describes only one GPU per process, the compiler may abort, and Mosaic GPU reads its output
folder from the environment only once. So each question has its own process, which takes about two
seconds to start.

`main` runs in the child, and prints the output of XLA and ptxas.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pallascope.gpu.gpu_compile_errors import (
    GpuRefusal,
    GpuRefusalKind,
    read_refusal,
    read_text,
    timed_out,
)
from pallascope.gpu.gpu_compiler import Compiled, compile_program, prepare
from pallascope.gpu.gpus import GpuChip, named, program_of
from pallascope.gpu.toolchain import NotInstalled, why_not
from pallascope.tools import codec
from pallascope.tools.child_process import ChildEnded, ChildProcess, ChildTimeout, ParentConnection
from pallascope.tpu.hlo import LoweredProgram


@dataclass(frozen=True, slots=True)
class CompileQuestion:
    """Asks for the compiler's result for the kernels in this program."""

    program: LoweredProgram
    chip: str


def main() -> None:
    """Answer the one question."""
    parent = ParentConnection()
    question = codec.unpack(CompileQuestion, parent.receive())
    chip = named(question.chip)
    kernels = prepare(Path(tempfile.gettempdir()))
    try:
        answer = compile_program(question.program, chip, kernels)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        said = read_text(text) or GpuRefusal(GpuRefusalKind.INTERNAL, text.partition("\n")[0], text)
        answer = Compiled(chip.name, failure=said)
    sys.stdout.flush()
    parent.send(codec.pack(answer))
    os._exit(0)  # doesn't wait for XLA's threads


#: Seconds for one program. JAX's own attention for Hopper takes about five.
PATIENCE = 120.0


def compiled_for(
    function: Callable[..., Any], args: Sequence[Any], chip: GpuChip, patience: float = PATIENCE
) -> Compiled:
    """Compile `function(*args)` for a GPU: its kernels, or the reason for a refusal.

    `args` are arrays or ShapeDtypeStructs. Raises NotInstalled if jax lowers the program, but the
    extra "gpu" is missing.
    """
    try:
        program = program_of(function, args, chip)
    except Exception as error:
        return Compiled(chip.name, failure=read_refusal(error))
    return compiled(program, chip, patience)


def compiled(program: LoweredProgram, chip: GpuChip, patience: float = PATIENCE) -> Compiled:
    """The same for a program that was lowered before. Raises NotInstalled."""
    if reason := why_not():
        raise NotInstalled(reason)
    with ChildProcess.running(__name__, os.environ) as child:
        child.send(CompileQuestion(program, chip.name))
        try:
            return _with_words(child.answer(Compiled, patience), child.printed())
        except ChildTimeout:
            return Compiled(chip.name, failure=timed_out(patience))
        except ChildEnded as error:
            return Compiled(chip.name, failure=_ended(error))


def _with_words(answer: Compiled, printed: str) -> Compiled:
    """Adds the printed output, because the compiler's exception may say less."""
    failure = answer.failure
    if failure and failure.kind is GpuRefusalKind.INTERNAL and (said := read_text(printed)):
        return Compiled(answer.chip, answer.kernels, said)
    return answer


def _ended(error: ChildEnded) -> GpuRefusal:
    """The refusal of a compiler that has ended its process.

    Raises NotInstalled if the extra is incomplete.
    """
    if "NotInstalled" in error.last_line:
        raise NotInstalled(error.last_line.partition(": ")[2])
    return GpuRefusal(
        GpuRefusalKind.ABORT,
        f"the compiler ends without a verdict on it: {error.last_line}",
        error.printed,
    )
