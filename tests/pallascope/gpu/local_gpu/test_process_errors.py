"""The process that runs a program: what becomes of its answer, its crash, its silence."""

from __future__ import annotations

import fcntl
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self, cast

import pytest

from pallascope.gpu import local_gpu, timed_gpu_process
from pallascope.gpu.local_gpu import run
from pallascope.gpu.timed_gpu_process import GpuRunResult, GpuRunStage, RunQuestion
from pallascope.model import GpuCrash
from pallascope.tools.child_process import ChildEnded, ChildProcess, ChildTimeout
from tests.pallascope.gpu.local_gpu.programs import doubling, given
from tests.pallascope.support import ROOT

QUESTION = RunQuestion(doubling(), (given(),))


class Child:
    """Stands for the process: it sends a stage, then answers or fails."""

    def __init__(
        self, stage: GpuRunStage | None, answer: GpuRunResult | ChildEnded | ChildTimeout
    ) -> None:
        self.answers = [*([stage] if stage else []), answer]
        self.environ: Mapping[str, str] = {}
        self.question: object = None

    def start(self, module: str, environ: Mapping[str, str], before: Sequence[str]) -> ChildProcess:
        assert (module, before) == (timed_gpu_process.__name__, ())
        self.environ = environ
        return cast(ChildProcess, self)

    def send(self, question: object) -> None:
        self.question = question

    def answer(self, kind: object, seconds: float) -> object:
        assert 0 <= seconds <= local_gpu.RUN_SECONDS
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self, seconds: float = 0.0) -> None:
        assert not self.answers

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def test_an_answer_and_the_environment_of_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    child = Child(GpuRunStage.RUNNING, GpuRunResult("H100", guarded=4, sides=6))
    assert run(QUESTION, start=child.start) == GpuRunResult("H100", guarded=4, sides=6)
    assert child.question == QUESTION
    assert child.environ["JAX_PLATFORMS"] == "cuda"
    assert child.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] == "true"


@pytest.mark.parametrize(
    ("ended", "stage", "crash"),
    [
        (
            ChildEnded("", -6, "F0000 CUDA_ERROR_ILLEGAL_ADDRESS\nAborted"),
            GpuRunStage.RUNNING,
            GpuCrash.ADDRESS,
        ),
        (ChildTimeout(1, ""), GpuRunStage.RUNNING, GpuCrash.HANG),
        (ChildTimeout(1, ""), GpuRunStage.COMPILING, GpuCrash.SLOW),
        (ChildEnded("", 1, ""), None, GpuCrash.UNKNOWN),
    ],
)
def test_a_process_without_an_answer(
    ended: ChildEnded | ChildTimeout, stage: GpuRunStage | None, crash: GpuCrash
) -> None:
    failure = run(QUESTION, start=Child(stage, ended).start).failure
    assert failure
    assert (failure.crash, failure.stage) == (crash, stage or GpuRunStage.STARTING)


def on_the_cpu(module: str, environ: Mapping[str, str], before: Sequence[str]) -> ChildProcess:
    """The process itself, but with the CPU for a GPU."""
    code = f"from {module} import main; main('cpu')"
    command = ["env", "JAX_PLATFORMS=cpu", f"PYTHONPATH={ROOT}", sys.executable, "-c", code]
    return ChildProcess.running(module, environ, command)


def test_a_real_process_runs_compares_and_times() -> None:
    found = run(RunQuestion(doubling(), (given(),), par=doubling()), start=on_the_cpu)
    assert found.failure is None, found.failure
    assert (found.far, found.changed, found.trampled, found.sides) == (0.0, (), (), 4)
    assert found.own
    assert found.own.runs == 20
    assert found.device == "cpu"


def test_the_real_process_says_why_it_has_no_gpu() -> None:
    """Where jax has no GPU: an exception that comes back as a failure, and is nobody's fault."""
    failure = run(QUESTION).failure
    if failure is not None:
        assert failure.stage is GpuRunStage.STARTING
        assert not failure.crash.is_kernel_fault


def test_one_at_a_time(tmp_path: Path) -> None:
    lock = tmp_path / "lock"

    def taken() -> bool:
        with open(lock, "rb") as other:
            try:
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    with local_gpu.alone(lock):
        lock.chmod(0o444)
        assert taken()
    assert not taken()
    with local_gpu.alone(lock):
        assert taken()
    with local_gpu.alone(tmp_path / "no folder/lock"):
        assert not taken()
