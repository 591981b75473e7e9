"""Compiles for a GPU in a child process.

The process that compiles one program for one chip: `gpu_compile_process` starts it.
It reads the question from its standard input, writes the answer to a file, and prints what XLA and
ptxas print.

A program compiled for a GPU in a process of its own, which ends with it or with its time.
XLA describes one GPU in a process, the compiler may abort, and what Mosaic GPU writes goes where
the environment said at first. So each question has its own process: about two seconds to start.
"""

from __future__ import annotations

import os
import subprocess
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
from pallascope.gpu.gpu_programs import program_of
from pallascope.gpu.gpus import GpuChip, named
from pallascope.gpu.toolchain import NotInstalled, why_not
from pallascope.tools import codec
from pallascope.tpu.lowered_programs import LoweredProgram


@dataclass(frozen=True, slots=True)
class CompileQuestion:
    """What does the compiler make of the kernels in this program?"""

    program: LoweredProgram
    chip: str


def main(folder: str) -> None:
    """Answer the one question, within a folder that is empty."""
    question = codec.unpack(CompileQuestion, sys.stdin.buffer.read())
    chip = named(question.chip)
    kernels = prepare(Path(folder))
    try:
        answer = compile_program(question.program, chip, kernels)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        said = read_text(text) or GpuRefusal(GpuRefusalKind.INTERNAL, text.partition("\n")[0], text)
        answer = Compiled(chip.name, failure=said)
    Path(folder, "answer").write_bytes(codec.pack(answer))
    sys.stdout.flush()
    os._exit(0)  # XLA's threads are in no hurry


#: Seconds for one program. JAX's own attention for Hopper takes about five.
PATIENCE = 120.0

_ROOT = Path(__file__).parents[2]
_CODE = """
import sys
sys.path += [each for each in {path!r} if each not in sys.path]
from pallascope.gpu.gpu_compile_process import main
main({folder!r})
"""


def compiled_for(
    function: Callable[..., Any], args: Sequence[Any], chip: GpuChip, patience: float = PATIENCE
) -> Compiled:
    """What a GPU's compiler makes of `function(*args)`: its kernels, or why it refuses.

    `args` are arrays or ShapeDtypeStructs. Raises NotInstalled where the program is right as far
    as jax alone can tell, and the extra "gpu" is missing.
    """
    try:
        program = program_of(function, args, chip)
    except Exception as error:
        return Compiled(chip.name, failure=read_refusal(error))
    return compiled(program, chip, patience)


def compiled(program: LoweredProgram, chip: GpuChip, patience: float = PATIENCE) -> Compiled:
    """The same of what was traced and lowered before. Raises NotInstalled."""
    if reason := why_not():
        raise NotInstalled(reason)
    with tempfile.TemporaryDirectory(prefix="pallas-katas-gpu-") as folder:
        command = [sys.executable, "-P", "-c"]
        command += [_CODE.format(path=[str(_ROOT), *sys.path], folder=folder)]
        try:
            ran = subprocess.run(
                command,
                input=codec.pack(CompileQuestion(program, chip.name)),
                env={**os.environ, "TMPDIR": folder},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=patience,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Compiled(chip.name, failure=timed_out(patience))
        printed = ran.stdout.decode(errors="replace")
        answer = Path(folder, "answer")
        if ran.returncode == 0 and answer.exists():
            return _with_words(codec.unpack(Compiled, answer.read_bytes()), printed)
    return Compiled(chip.name, failure=_ended(ran.returncode, printed))


def _with_words(answer: Compiled, printed: str) -> Compiled:
    """The compiler's exception may say less than what it has printed before."""
    failure = answer.failure
    if failure and failure.kind is GpuRefusalKind.INTERNAL and (said := read_text(printed)):
        return Compiled(answer.chip, answer.kernels, said)
    return answer


def _ended(code: int, printed: str) -> GpuRefusal:
    """What a process without an answer says. Raises NotInstalled where the extra is not whole."""
    last = (printed.strip().splitlines() or [f"exit code {code}"])[-1]
    if "NotInstalled" in last:
        raise NotInstalled(last.partition(": ")[2])
    return GpuRefusal(
        GpuRefusalKind.ABORT, f"the compiler ends without a verdict on it: {last}", printed
    )
