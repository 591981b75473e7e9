"""A program run on the GPU in a process of its own, which ends with it or with its time.

A kernel that writes where it must not takes the CUDA context with it, and one that waits for ever
never gives the GPU back: both cost that process, and nothing else. One such process runs at a time,
whatever else grades on this machine: two would time each other.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.gpu.running.child import ANSWER, STAGE
from grader.gpu.running.crashes import read_failure, stopped
from grader.gpu.running.here import environment
from grader.gpu.running.messages import Question, Ran, Stage
from grader.tools import codec

#: Seconds for one process: to import jax, compile, run and time.
PATIENCE = 120.0

_ROOT = Path(__file__).parents[3]
_LOCK = "pallas-katas-gpu.lock"
_CODE = """
import sys
sys.path += [each for each in {path!r} if each not in sys.path]
from grader.gpu.running.child import main
main({folder!r})
"""
#: A part of the memory in one piece: what is made one after the other then lies so.
_IN_ONE_PIECE = {"XLA_PYTHON_CLIENT_PREALLOCATE": "true", "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.4"}


@dataclass(frozen=True, slots=True)
class Ended:
    """A process's exit code, None where it had to be stopped, and what it has printed."""

    code: int | None
    printed: str


#: Starts a command with an input and an environment, within so many seconds.
Start = Callable[[Sequence[str], bytes, Mapping[str, str], float], Ended]


def started(
    command: Sequence[str], given: bytes, environ: Mapping[str, str], patience: float
) -> Ended:
    """Start the process, and wait for it."""
    process = subprocess.Popen(
        command,
        env=dict(environ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        printed, _ = process.communicate(given, patience)
        return Ended(process.returncode, printed.decode(errors="replace"))
    except subprocess.TimeoutExpired:
        return Ended(None, _ended(process))
    except BaseException:
        _ended(process)
        raise


def _ended(process: subprocess.Popen[bytes]) -> str:
    """Stop a process and what it has started; what it had printed."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, 9)
    printed, _ = process.communicate()
    return printed.decode(errors="replace")


def run(
    question: Question,
    patience: float = PATIENCE,
    start: Start = started,
    before: Callable[[Path], Sequence[str]] = lambda _: (),
    added: Mapping[str, str] = _IN_ONE_PIECE,
    read: Callable[[Path], object] = lambda _: None,
) -> Ran:
    """What comes of a program on the GPU that is here.

    `before` makes of the process's folder what stands before its command, and `read` is given the
    folder before it is removed. `added` goes to the environment.
    """
    with tempfile.TemporaryDirectory(prefix="pallas-katas-gpu-") as name, alone():
        folder = Path(name)
        code = _CODE.format(path=[str(_ROOT), *sys.path], folder=name)
        command = [*before(folder), sys.executable, "-P", "-c", code]
        environ = {**environment(os.environ), **added, "TMPDIR": name}
        ended = start(command, codec.pack(question), environ, patience)
        answer = _answer(folder, ended, patience)
        read(folder)
        return answer


def _answer(folder: Path, ended: Ended, patience: float) -> Ran:
    stage = _reached(folder)
    if ended.code is None:
        return Ran(failure=stopped(patience, stage, ended.printed))
    if (file := folder / ANSWER).exists():
        return codec.unpack(Ran, file.read_bytes())
    said = ended.printed.strip() or f"the process ended with exit code {ended.code}"
    return Ran(failure=read_failure(said, stage))


def _reached(folder: Path) -> Stage:
    try:
        return Stage((folder / STAGE).read_text())
    except (OSError, ValueError):
        return Stage.STARTING


@contextlib.contextmanager
def alone(file: Path | None = None) -> Iterator[None]:
    """Wait until no other process of this machine runs a kata's program on the GPU."""
    try:
        import fcntl

        lock = _opened(file or Path(tempfile.gettempdir(), _LOCK))
    except (ImportError, OSError):  # there is no such lock, or no way to have it
        yield
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _opened(file: Path) -> int:
    """To be locked, a file that another user has made need only be read."""
    try:
        return os.open(file, os.O_RDONLY)
    except FileNotFoundError:
        return os.open(file, os.O_RDONLY | os.O_CREAT, 0o644)
