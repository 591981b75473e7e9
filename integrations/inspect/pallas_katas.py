"""The katas as a task of Inspect: https://inspect.aisi.org.uk

    inspect eval integrations/inspect/pallas_katas.py --model openai/gpt-4o -T name=basics

Needs inspect-ai and this repository's package. See integrations/README.md.
"""

from __future__ import annotations

from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState, generate

from grader.batch.evaluation import Evaluation

PARTS = ("reward", "right", "accepted", "speed", "format")


@task
def pallas_katas(
    name: str = "",
    chip: str = "v5e",
    workers: int = 1,
    seed: int | None = None,
    isolation: str = "require",
    root: str | None = None,
) -> Task:
    """Katas that match `name` as pytest -k does; `workers` answers are graded at a time.

    All arguments are those of grader.batch.evaluation.Evaluation.
    """
    tasks = Evaluation(name, chip, isolation, root=root).tasks
    return Task(
        dataset=MemoryDataset([_sample(one) for one in tasks], name="pallas_katas"),
        solver=generate(),
        scorer=hidden_cases(chip, workers, seed, isolation, root),
    )


def _sample(one: dict[str, Any]) -> Sample:
    about = {key: one[key] for key in ("track", "title", "kind", "entry_point", "regions")}
    return Sample(input=one["prompt"], id=one["task_id"], metadata=about)


@scorer(metrics={part: [mean(), stderr()] for part in PARTS})
def hidden_cases(
    chip: str = "v5e",
    workers: int = 1,
    seed: int | None = None,
    isolation: str = "require",
    root: str | None = None,
) -> Scorer:
    """Each part of the reward, from 0 to 1; the explanation says what the worst case was told."""
    evaluation = Evaluation("", chip, isolation, workers, seed, root)

    async def score(state: TaskState, target: Target) -> Score:
        marks = await evaluation.mark(str(state.sample_id), state.output.completion)
        return Score(
            value={part: getattr(marks, part) for part in PARTS},
            answer=marks.source,
            explanation=marks.told,
            metadata={"stars": marks.stars, "seed": marks.seed},
        )

    return score
