"""The katas as a task of Inspect, with a model whose answers are known."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from grader.exercise.catalog import katas
from grader.exercise.mutants import wrong_version
from tests.support.repositories import ROOT

FILE = ROOT / "integrations/inspect/pallas_katas.py"
ADD = next(kata for kata in katas(ROOT, "solutions") if kata.name == "constant_add")
SOLUTION = ADD.solution.read_text(encoding="utf-8")
MISTAKE = wrong_version(SOLUTION, ADD.key.mistakes[0])
ANSWERS = (SOLUTION, f"So:\n```python\n{SOLUTION}```\n", "I can't.", f"```\n{MISTAKE}```")
RIGHT, FORMAT = [1, 1, 0, 0], [1, 1, 0, 1]
KNOBS: dict[str, Any] = {"name": "constant_add", "isolation": "auto", "root": str(ROOT)}


def loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pallas_katas_of_inspect", FILE)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_inspect_itself(tmp_path: Path) -> None:
    inspect_ai = pytest.importorskip("inspect_ai", reason="pip install inspect-ai to run this")
    from inspect_ai.model import (  # type: ignore[import-not-found]
        ModelOutput,
        ModelUsage,
        get_model,
    )

    answers = [ModelOutput.from_content("mockllm/model", each) for each in ANSWERS]
    for each in answers:  # else it counts tokens with a file from the network
        each.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    (log,) = inspect_ai.eval(
        loaded().pallas_katas(**KNOBS),
        model=get_model("mockllm/model", custom_outputs=answers),
        epochs=len(ANSWERS),
        max_samples=1,
        log_dir=str(tmp_path),
        display="none",
    )
    assert log.status == "success", log.error
    scores = [sample.scores["hidden_cases"] for sample in log.samples]
    assert [score.value["right"] for score in scores] == RIGHT
    assert [score.value["format"] for score in scores] == FORMAT
    assert scores[0].answer == SOLUTION
    found = {score.name: score.metrics["mean"].value for score in log.results.scores}
    assert found["right"] == 0.5


def stand_in() -> dict[str, ModuleType]:
    """As much of Inspect as the file uses: values that keep what they are given."""

    def keeping(*positional: object, **named: object) -> SimpleNamespace:
        return SimpleNamespace(positional=positional, **named)

    def decorator(function: Any = None, **_: object) -> Any:
        return function or (lambda inner: inner)

    names = {
        "inspect_ai": {"Task": keeping, "task": decorator},
        "inspect_ai.dataset": {"MemoryDataset": keeping, "Sample": keeping},
        "inspect_ai.scorer": dict.fromkeys(("Score", "mean", "stderr"), keeping)
        | {"Scorer": object, "Target": object, "scorer": decorator},
        "inspect_ai.solver": {"TaskState": object, "generate": keeping},
    }
    modules = {name: ModuleType(name) for name in names}
    for name, held in names.items():
        vars(modules[name]).update(held)
    return modules


def test_without_inspect(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, module in stand_in().items():
        monkeypatch.setitem(sys.modules, name, module)
    task = loaded().pallas_katas(**KNOBS)
    ((sample,),) = task.dataset.positional
    assert (sample.id, sample.metadata["track"]) == (ADD.id, ADD.track)
    assert ADD.stub_text() in sample.input

    def state(answer: str) -> SimpleNamespace:
        return SimpleNamespace(sample_id=ADD.id, output=SimpleNamespace(completion=answer))

    async def scored() -> list[Any]:
        return [await task.scorer(state(answer), None) for answer in ANSWERS[1:]]

    scores = asyncio.run(scored())
    assert [score.value["right"] for score in scores] == RIGHT[1:]
    assert [score.value["format"] for score in scores] == FORMAT[1:]
