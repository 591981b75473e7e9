"""Sessions on machines with a TPU, a GPU or both: strict everywhere, on a TPU in addition.

No TPU is here: a stand-in runs launches in the plain interpreter, which forgives what a TPU may.
"""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path

import numpy as np
import pytest

from grader.exercise.cases import draw
from grader.exercise.catalog import Kata, katas, matching_katas
from grader.exercise.mutants import wrong_version
from grader.grading.grader import Grader
from grader.plugin import items
from grader.sandbox import devices, worker_pool
from grader.sandbox.client import WorkerClient
from grader.sandbox.launch_client import TpuRunner, WorkerQueues
from grader.sandbox.messages import Answer
from grader.verdict import Grade, State
from pallascope.model import (
    Accident,
    Check,
    Mode,
    Problem,
    Stage,
)
from pallascope.runs.questions import RunResult, RunTrace
from pallascope.tools.arrays import from_numpy, to_numpy
from tests.support.repositories import ROOT, Repository, with_text

GREEDY = "o_ref[...] = x_ref[...] * 2 + 0 * o_ref[...]"  # right where memory happens to be zero
MACHINES = {"cpu": (), "gpu": ("gpu",), "tpu": ("tpu",), "both": ("tpu", "gpu")}
ALSO = {"gpu": "also run on this machine's GPU", "tpu": "also run on this machine's TPU"}


class StandIn(TpuRunner):
    """Runs launches in the plain interpreter, and returns `factor` times what comes of them."""

    def __init__(self, lines: WorkerQueues | None = None, factor: float = 1.0) -> None:
        super().__init__()
        self._lines, self._factor = lines, factor
        self.instead: RunResult | Accident | None = None
        self.asked: list[RunTrace] = []

    def ran(self, question: RunTrace, seconds: float | None) -> Answer | Accident | None:
        self.asked.append(question)
        if self.instead or self._lines is None:
            return self.instead
        plain = dataclasses.replace(question, mode=Mode.INTERPRET)
        answer = self._lines.running.answer(plain, seconds)
        assert isinstance(answer, RunResult)
        outputs = (np.asarray(to_numpy(one)) * self._factor for one in answer.outputs)
        return dataclasses.replace(answer, outputs=tuple(map(from_numpy, outputs)))


def graded(kata: Kata, lines: WorkerQueues, tpu: TpuRunner | None, case: int = 0) -> Grade:
    grade = Grader(WorkerClient(lines, runners={"tpu": tpu} if tpu else {})).grade(
        kata, draw(kata.id, kata.key, 1)[case], 60
    )
    return dataclasses.replace(grade, seconds=0.0)


@pytest.fixture
def solved(repository: Repository) -> Kata:
    kata = repository.add("double")
    repository.solve(kata)
    return kata


# ---- the verdict stays ----


def test_what_is_right_there_too_gets_no_note(solved: Kata, lines: WorkerQueues) -> None:
    tpu = StandIn(lines)
    assert graded(solved, lines, tpu) == graded(solved, lines, None)
    assert len(tpu.asked) == 1


def test_what_is_wrong_there_gets_a_note(solved: Kata, lines: WorkerQueues) -> None:
    on_tpu = graded(solved, lines, StandIn(lines, factor=3.0), case=1)
    (note,) = on_tpu.notes
    assert dataclasses.replace(on_tpu, notes=()) == graded(solved, lines, None, case=1)
    assert note.startswith(f"{solved.location()[0]}: hidden1: right in the strict interpreter, ")
    assert "not on the TPU of this machine: o_ref: all of its" in note
    assert "blocks are wrong; element (" in note


ENDS = {
    "raises": (
        RunResult(Problem(Stage.RUN, "XlaRuntimeError", "INTERNAL: Mosaic failed\nmore")),
        "not on the TPU of this machine: XlaRuntimeError: INTERNAL: Mosaic failed",
    ),
    "hangs": (
        worker_pool.stopped(30.0, None, ""),
        "not on the TPU of this machine: no answer after 30 s",
    ),
}


@pytest.mark.parametrize(("instead", "words"), ENDS.values(), ids=ENDS)
def test_how_a_launch_ends_there_is_a_note(
    solved: Kata, lines: WorkerQueues, instead: RunResult | Accident, words: str
) -> None:
    tpu = StandIn()
    tpu.instead = instead
    grade = graded(solved, lines, tpu)
    (note,) = grade.notes
    assert (grade.state, note.endswith(words)) == (State.PASSED, True), note


def test_a_kernel_that_fails_the_strict_run_does_not_run_there(
    repository: Repository, lines: WorkerQueues
) -> None:
    repository.solve(kata := repository.add("greedy"), GREEDY)
    grade = graded(kata, lines, tpu := StandIn(lines))
    assert (grade.state, tpu.asked) == (State.FAILED, [])


@pytest.mark.parametrize("name", ["row_sum", "tiled_matmul"])
def test_known_mistakes_are_caught_beside_a_tpu_that_forgives_them(
    name: str, lines: WorkerQueues, tmp_path: Path
) -> None:
    """A sample: of all, `test_auto_is_strict_on_every_machine` shows that workers are the same."""
    (kata,) = matching_katas(katas(ROOT), name)
    right = kata.solution.read_text()
    for mistake in (one for one in kata.key.mistakes if one.caught is Check.VALUES):
        wrong = with_text(kata, tmp_path, wrong_version(right, mistake))
        count = wrong.key.count
        grades = (graded(wrong, lines, StandIn(lines), case) for case in range(count))
        found = next((each.finding for each in grades if each.state is State.FAILED), None)
        assert found, mistake.title
        assert found.check is Check.VALUES


def test_a_file_whose_launch_hangs_there_is_not_run_there_again(
    solved: Kata, lines: WorkerQueues, monkeypatch: pytest.MonkeyPatch
) -> None:
    tpu, stuck, asked = TpuRunner(), worker_pool.stopped(30.0, None, ""), []
    monkeypatch.setattr(tpu._queue, "answer", lambda question, _: asked.append(question) or stuck)
    first, second = (graded(solved, lines, tpu, case) for case in (0, 1))
    assert (len(first.notes), second.notes) == (1, ())
    assert [question.mode for question in asked] == [Mode.COMPILED]


# ---- sessions on simulated machines ----


@pytest.fixture
def machine(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, ...]:
    """The device files and the plugins of a machine; what hardware it has."""
    has: tuple[str, ...] = MACHINES[request.param]
    root = tmp_path / "machine"
    pci = root / "sys/bus/pci/devices/0000:00:04.0"
    pci.mkdir(parents=True)
    (root / "dev").mkdir()
    if "tpu" in has:
        (pci / "vendor").write_text(devices.GOOGLE)
        (pci / "class").write_text("0x088000")
    if "gpu" in has:
        (root / "dev/nvidiactl").touch()
    monkeypatch.setattr(devices, "_installed", lambda _: True)
    monkeypatch.setattr(devices, "probe", functools.partial(devices.probe, root=root))
    return has


@pytest.mark.parametrize("machine", MACHINES, indirect=True)
def test_every_machine_is_as_strict(
    repository: Repository, machine: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(items, "TpuRunner", StandIn)
    repository.solve(repository.add("greedy"), GREEDY)
    ran = repository.pytest("-k", "hidden0", JAX_PLATFORMS="")
    assert "o_ref read before it was written" in ran.phrase("greedy")
    assert "strict TPU interpreter" in ran.out
    assert [name for name, words in ALSO.items() if words in " ".join(ran.out.split())] == [
        name for name in ALSO if name in machine
    ]


@pytest.mark.parametrize("machine", ["tpu"], indirect=True)
def test_a_tpu_that_can_not_be_used_costs_a_note(
    repository: Repository, machine: tuple[str, ...]
) -> None:
    """Here none is: jax says so, once."""
    repository.solve(repository.add("double"))
    ran = repository.pytest("-k", "hidden0 or hidden1", JAX_PLATFORMS="")
    assert ran.state("double") == "passed"
    (note,) = [note for grade in ran.grades["double"] for note in grade["notes"]]
    assert "this machine's TPU can't be used: " in note
    assert "nable to initialize backend 'tpu'" in note
    assert "this machine's TPU can't be used" in " ".join(ran.out.split())
