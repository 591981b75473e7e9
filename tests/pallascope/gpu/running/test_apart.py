"""The process that runs a program: what becomes of its answer, its crash, its silence."""

from __future__ import annotations

import fcntl
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from pallascope.gpu import hardware
from pallascope.gpu.hardware import ProcessEnd, run
from pallascope.gpu.hardware_process import ANSWER, STAGE, GpuRunResult, GpuRunStage, RunQuestion
from pallascope.model import GpuCrash
from pallascope.tools import codec
from tests.pallascope.gpu.running.programs import doubling, given

QUESTION = RunQuestion(doubling(), (given(),))


class Process:
    """Stands for the process: leaves files in its folder, and ends."""

    def __init__(
        self,
        ended: ProcessEnd,
        stage: GpuRunStage | None = None,
        answer: GpuRunResult | None = None,
    ) -> None:
        self.ended, self.stage, self.answer = ended, stage, answer
        self.environ: Mapping[str, str] = {}

    def __call__(
        self, command: Sequence[str], question: bytes, environ: Mapping[str, str], patience: float
    ) -> ProcessEnd:
        self.environ, folder = environ, Path(environ["TMPDIR"])
        assert codec.unpack(RunQuestion, question) == QUESTION
        assert str(folder) in command[-1]
        if self.stage:
            (folder / STAGE).write_text(self.stage.value)
        if self.answer:
            (folder / ANSWER).write_bytes(codec.pack(self.answer))
        return self.ended


def test_an_answer_and_the_environment_of_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    process = Process(
        ProcessEnd(0, ""), GpuRunStage.RUNNING, GpuRunResult("H100", guarded=4, sides=6)
    )
    assert run(QUESTION, start=process) == GpuRunResult("H100", guarded=4, sides=6)
    assert process.environ["JAX_PLATFORMS"] == "cuda"
    assert process.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] == "true"


@pytest.mark.parametrize(
    ("ended", "stage", "crash"),
    [
        (
            ProcessEnd(-6, "F0000 CUDA_ERROR_ILLEGAL_ADDRESS\nAborted"),
            GpuRunStage.RUNNING,
            GpuCrash.ADDRESS,
        ),
        (ProcessEnd(None, ""), GpuRunStage.RUNNING, GpuCrash.HANG),
        (ProcessEnd(None, ""), GpuRunStage.COMPILING, GpuCrash.SLOW),
        (ProcessEnd(1, ""), None, GpuCrash.UNKNOWN),
    ],
)
def test_a_process_without_an_answer(
    ended: ProcessEnd, stage: GpuRunStage | None, crash: GpuCrash
) -> None:
    failure = run(QUESTION, start=Process(ended, stage)).failure
    assert failure
    assert (failure.crash, failure.stage) == (crash, stage or GpuRunStage.STARTING)


def test_a_process_that_hangs_is_stopped_with_what_it_started() -> None:
    code = "import subprocess, sys; print('here', flush=True); subprocess.run(['sleep', '60'])"
    ended = hardware.started([sys.executable, "-c", code], b"", {"PATH": "/usr/bin:/bin"}, 1.0)
    assert ended.code is None
    assert "here" in ended.printed


def on_the_cpu(
    command: Sequence[str], question: bytes, environ: Mapping[str, str], patience: float
) -> ProcessEnd:
    """The process itself, but with the CPU for a GPU."""
    *before, code = command
    folder = environ["TMPDIR"]
    code = code.replace(f"main({folder!r})", f"main({folder!r}, 'cpu')")
    return hardware.started(
        [*before, code], question, {**environ, "JAX_PLATFORMS": "cpu"}, patience
    )


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
        assert not failure.crash.of_the_kernel


def test_one_at_a_time(tmp_path: Path) -> None:
    lock = tmp_path / "lock"

    def taken() -> bool:
        with open(lock, "rb") as other:
            try:
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    with hardware.alone(lock):
        lock.chmod(0o444)
        assert taken()
    assert not taken()
    with hardware.alone(lock):
        assert taken()
    with hardware.alone(tmp_path / "no folder/lock"):
        assert not taken()
