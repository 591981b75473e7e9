"""For evaluation harnesses: tasks for a model, marks for its answers.

A task has the stub and the rules; no solutions, hints or keys.

    with Evaluation("basics", workers=4) as evaluation:
        for task in evaluation.tasks:
            marks = await evaluation.mark(task["task_id"], answer_to(task["prompt"]))

integrations/ is built on this.
"""

from __future__ import annotations

import asyncio
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from grader.api import Examiner, ExaminerPool, Report
from grader.batch.samples import NoSample, is_code, source_in
from grader.exercise.cases import random_seed
from grader.exercise.catalog import Kata
from grader.exercise.repository import matching
from pallascope.tools.regions import BEGIN, END, regions
from pallascope.tpu.chips import DEFAULT, chips_with_cores

RULES = f"""\
Complete the Python file below. Replace the lines between "{BEGIN}" and "{END}", and leave every
other line as it is. Answer with the whole file, and nothing else.

- It is graded on hidden cases: other sizes, block sizes and dtypes than those that you see.
- It is run in an interpreter that behaves like a TPU. Unwritten memory contains NaN, an index out
  of bounds is an error, and grid steps declared "parallel" run in any order.
- If the task asks for a Pallas kernel, the work must be done inside of it. Then the kernel is
  compiled for a TPU {{chip}}, and its predicted time is compared with a good solution's.
- 1 star: the results are right. 2 stars: and a TPU's compiler accepts it. 3 stars: and it moves at
  most 10 % more bytes and takes at most 15 % longer than the solution.
- Don't pass interpret= to pallas_call. There is no network, and there are no other files.
"""


def task(kata: Kata, chip: str) -> dict[str, Any]:
    """One line of the file of tasks. Raises KeyProblem or RegionError if the kata is broken."""
    stub, judged = kata.stub_text(), chips_with_cores(kata.key.cores, (chip,))[0]
    return {
        "task_id": kata.id,
        "track": kata.track,
        "title": kata.key.title,
        "kind": kata.key.kind.value,
        "entry_point": kata.name,
        "regions": len(regions(stub)),
        "prompt": f"{RULES.format(chip=judged)}\n```python\n{stub}```\n",
        "stub": stub,
    }


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of one answer: numbers from 0 to 1, and `told`, the reason in a few words.

    `reward` is that of the Report, and the mean of three parts: `right` and `accepted` are 0 or 1
    (★ and ★★), `speed` is par's cycles ÷ its own for an accepted kernel, at most 1. `format` is 1
    if the answer is code, or has a code block, from which a file could be made. `source` is the
    graded file, None if there was none; `seed` draws its hidden cases again. Show neither `told`
    nor `seed` to a model that will be graded with the same seed again.
    """

    reward: float
    right: float
    accepted: float
    speed: float
    format: float
    stars: int
    told: str
    seed: int
    source: str | None = None


class Evaluation:
    """Tasks, and a pool of Examiners that marks answers to them.

    `name` chooses katas like pytest -k, "" all of them. `workers` answers are graded at a time.
    All get the same hidden cases, drawn with `seed`, or with a random one that no model can know.
    So solutions are graded once, and answers are comparable. `root` is as for Examiner. `close()`
    waits for running grades and ends all processes; so does dropping the object. Raises
    NotIsolated, RepositoryError, ValueError.
    """

    def __init__(
        self,
        name: str = "",
        chip: str = DEFAULT,
        isolation: str = "require",
        workers: int = 1,
        seed: int | None = None,
        root: Path | str | None = None,
    ) -> None:
        # Raises errors here instead of in a thread; starts no process.
        first = Examiner((chip,), isolation, Path(root) if root else None)
        self._katas = {kata.id: kata for kata in matching(first.root, name)}
        self.tasks: tuple[dict[str, Any], ...] = tuple(
            task(kata, chip) for kata in self._katas.values()
        )
        self.seed = random_seed() if seed is None else seed
        self._pool = ExaminerPool(lambda: Examiner((chip,), isolation, first.root), workers)
        # Harnesses drop objects without closing them, so processes end with this object.
        self.close = weakref.finalize(self, self._pool.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __deepcopy__(self, _memo: object) -> Self:
        return self  # harnesses copy their graders; copies share the processes

    async def mark(self, task_id: str, answer: str) -> Marks:
        """Grade a model's answer, off the event loop. Raises KeyError, and as Examiner.grade."""
        kata = self._katas[task_id]
        try:
            source = await asyncio.to_thread(source_in, kata, answer)
        except NoSample as why:
            return Marks(0.0, 0.0, 0.0, 0.0, 0.0, 0, str(why), self.seed)
        report = await self._pool.agrade(task_id, source, self.seed)
        return marks_of(report, source, is_code(answer))


def marks_of(report: Report, source: str, formed: bool) -> Marks:
    """The marks that a report amounts to."""
    right, accepted = float(report.stars >= 1), float(report.stars >= 2)
    speed = max(0.0, 3 * report.reward() - right - accepted)
    return Marks(
        reward=report.reward(),
        right=right,
        accepted=accepted,
        speed=speed,
        format=float(formed),
        stars=report.stars,
        told=f"{report.finding.check.value}: {report.finding.phrase}" if report.finding else "",
        seed=report.seed,
        source=source,
    )
