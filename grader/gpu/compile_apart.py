"""A program compiled for a GPU in a process of its own, which ends with it or with its time.

XLA describes one GPU in a process, the compiler may abort, and what Mosaic GPU writes goes where
the environment said at first. So each question has its own process: about two seconds to start.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from grader.gpu.chips import Chip
from grader.gpu.compile_child import Question
from grader.gpu.compiler import Compiled
from grader.gpu.programs import Program, program_of
from grader.gpu.refusals import Failure, Kind, read_refusal, read_text, timed_out
from grader.gpu.toolchain import NotInstalled, why_not
from grader.tools import codec

#: Seconds for one program. JAX's own attention for Hopper takes about five.
PATIENCE = 120.0

_ROOT = Path(__file__).parents[2]
_CODE = """
import sys
sys.path += [each for each in {path!r} if each not in sys.path]
from grader.gpu.compile_child import main
main({folder!r})
"""


def compiled_for(
    function: Callable[..., Any], args: Sequence[Any], chip: Chip, patience: float = PATIENCE
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


def compiled(program: Program, chip: Chip, patience: float = PATIENCE) -> Compiled:
    """The same of what was traced and lowered before. Raises NotInstalled."""
    if reason := why_not():
        raise NotInstalled(reason)
    with tempfile.TemporaryDirectory(prefix="pallas-katas-gpu-") as folder:
        command = [sys.executable, "-P", "-c"]
        command += [_CODE.format(path=[str(_ROOT), *sys.path], folder=folder)]
        try:
            ran = subprocess.run(
                command,
                input=codec.pack(Question(program, chip.name)),
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
    if failure and failure.kind is Kind.INTERNAL and (said := read_text(printed)):
        return Compiled(answer.chip, answer.kernels, said)
    return answer


def _ended(code: int, printed: str) -> Failure:
    """What a process without an answer says. Raises NotInstalled where the extra is not whole."""
    last = (printed.strip().splitlines() or [f"exit code {code}"])[-1]
    if "NotInstalled" in last:
        raise NotInstalled(last.partition(": ")[2])
    return Failure(Kind.ABORT, f"the compiler ends without a verdict on it: {last}", printed)
