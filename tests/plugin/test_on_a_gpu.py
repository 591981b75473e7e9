"""A kata for GPUs where a stub stands for one: what goes to it, and what comes of its answers."""

from __future__ import annotations

import dataclasses

import pytest

from grader.exercise.cases import hidden_cases
from grader.grading.grader import Grader
from grader.sandbox.client import WorkerClient
from grader.sandbox.gpu_runs import NO_TOOL, GpuRunner
from grader.sandbox.launch_client import WorkerQueues
from grader.verdict import Grade, State
from pallascope.gpu.timed_gpu_process import GpuRunResult
from pallascope.model import Check, Times
from pallascope.tools.arrays import from_numpy, to_numpy
from tests.plugin.test_for_gpus import BODY, KEY, SOLUTION
from tests.sandbox.test_gpu_runs import RunQuestion, Stub
from tests.support.repositories import Repository

DEVICE = "NVIDIA H100 80GB HBM3"


@dataclasses.dataclass
class Doubling(Stub):
    """Doubles what has contents, and takes 15 µs for the learner's launch, 10 for par's."""

    factor: float = 2.0

    def run(self, question: RunQuestion) -> GpuRunResult:
        self.asked.append(question)
        if question.par:
            own, par = (Times(t, t, t, 20) for t in (1.5e-5, 1e-5))
            return GpuRunResult(DEVICE, own=own, par=par)
        return GpuRunResult(DEVICE, (from_numpy(to_numpy(question.inputs[0]) * self.factor),))


def test_what_goes_to_a_gpu(
    repository: Repository, lines: WorkerQueues, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Repository, "SOLUTION", SOLUTION)
    monkeypatch.setattr(Repository, "BODY", BODY.replace("\n", "\n    "))
    kata = repository.add("double", key=KEY)
    repository.solve(kata, BODY)
    stub = Doubling()
    grader = Grader(WorkerClient(lines, runners={"gpu": GpuRunner(stub)}))
    small, *_, production = hidden_cases(kata, 3)

    def grade(case: int = 0) -> Grade:
        return grader.grade(kata, production if case else small, 60)

    first = grade()
    assert (first.state, first.stars, first.gpu) == (State.PASSED, 3, "h100")
    assert first.notes == (f"{kata.location()[0]}: {NO_TOOL}",)
    (question,) = [one for one in stub.asked if isinstance(one, RunQuestion)]
    assert b"mosaic_gpu" in question.own.module
    assert question.par is None
    assert question.inputs[0].shape == (small.sizes["N"],)

    stub.factor = 3.0  # the solution's launch is tripled too: a fault of this GPU
    second = grade()
    assert second.state is State.PASSED
    assert second.not_judged
    assert "the solution fails too" in second.not_judged.why
    assert second.notes == ()

    timed = grade(3)
    assert timed.finding
    assert (timed.state, timed.finding.check) == (State.PASSED, Check.COST)
    assert timed.finding.phrase == "1.50× par's time on the GPU"
    assert stub.asked[-1].par  # type: ignore[union-attr]
