"""The tasks, and the rewards of an answer."""

from __future__ import annotations

from collections.abc import Iterator

import verifiers.v1 as vf

from grader.batch.evaluation import Evaluation

WEIGHT = 1 / 3  # of each part: together they are the reward of grader.api


class KataTask(vf.Task[vf.TaskData]):
    """One kata: the first answer is graded, with a hidden seed."""

    evaluation: Evaluation  # of the taskset

    @vf.reward(weight=WEIGHT)
    async def parts(self, trace: vf.Trace) -> dict[str, float]:
        """`right`, `accepted` and `speed`, and beside them the metrics `format` and `stars`."""
        marks = await self.evaluation.mark(str(self.data.id), trace.last_reply)
        trace.record_metrics({"format": marks.format, "stars": float(marks.stars)})
        trace.info["told"], trace.info["seed"] = marks.told, marks.seed
        return {"right": marks.right, "accepted": marks.accepted, "speed": marks.speed}


class KatasConfig(vf.TasksetConfig):
    """Which katas, and how they are graded: see grader.batch.evaluation.Evaluation."""

    match: str = ""
    """Katas that match, as pytest -k does; all of them by default."""
    chip: str = "v5e"
    """The TPU to compile for and to predict on."""
    workers: int = 1
    """How many answers are graded at a time."""
    seed: int | None = None
    """Draws the hidden cases; a random one by default."""
    isolation: str = "require"
    """"require", "auto" or "off"."""
    root: str | None = None
    """The clone with katas/ and solutions/."""


class KatasTaskset(vf.Taskset[KataTask, KatasConfig]):
    """A task for each kata. Its processes end with it."""

    def __init__(self, config: KatasConfig) -> None:
        super().__init__(config)
        how = (config.match, config.chip, config.isolation, config.workers)
        self.evaluation = Evaluation(*how, config.seed, config.root)

    def load(self) -> Iterator[KataTask]:
        for one in self.evaluation.tasks:
            data = vf.TaskData(
                id=one["task_id"],
                name=one["entry_point"],
                description=one["title"],
                prompt=one["prompt"],
            )
            task = KataTask(data, self.config.task)
            task.evaluation = self.evaluation
            yield task


def load_environment(**knobs: object) -> vf.Env:
    """The environment for programs that make it themselves; `knobs` are KatasConfig's fields."""
    taskset = KatasConfig.model_validate({"id": "pallas-katas-env", **knobs})
    here = vf.AgentConfig(runtime=vf.SubprocessConfig())  # there is nothing to run elsewhere
    return vf.load_environment(vf.SingleAgentEnvConfig(taskset=taskset, agent=here))
