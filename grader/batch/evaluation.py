"""For evaluation harnesses: tasks for a model, marks for its answers.

Tasks for whoever writes submissions: the stub and the rules; no solutions, hints or keys.

What a harness for evaluations needs: tasks for a model, and marks for what it answers.
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
from grader.batch.completions import is_code, source_in
from grader.batch.samples import NoSample
from grader.exercise.cases import random_seed
from grader.exercise.catalog import Kata
from grader.exercise.regions import BEGIN, END, regions
from grader.exercise.repository import matching
from pallascope.tpu.chips import DEFAULT, chips_with_cores

RULES = f"""\
Complete the Python file below. Replace what stands between "{BEGIN}" and "{END}", and leave every
other line as it is. Answer with the whole file, and nothing else.

- It is graded on hidden cases: other sizes, block sizes and dtypes than those that you see.
- It is run in an interpreter that behaves like a TPU. Memory that nothing has written contains NaN,
  an index out of bounds is an error, and grid steps declared "parallel" come in any order.
- Where a Pallas kernel is asked for, the work has to be done inside of it. Then the kernel is
  compiled for a TPU {{chip}}, and its time is predicted and compared with a good solution's.
- 1 star: the results are right. 2 stars: and a TPU's compiler accepts it. 3 stars: and it moves at
  most 10 % more bytes and takes at most 15 % longer than the solution.
- Don't pass interpret= to pallas_call. There is no network, and there are no other files.
"""


def task(kata: Kata, chip: str) -> dict[str, Any]:
    """One line of the file of tasks. Raises KeyProblem, RegionError where the kata is broken."""
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
    """What one answer is worth: numbers from 0 to 1, and `told`, why, in a few words.

    `reward` is that of the Report, and the mean of three parts: `right` and `accepted` are 0 or 1
    (★ and ★★), `speed` is par's cycles ÷ its own for what is accepted, at most 1. `format` is 1
    where the answer is code, or has a code block, from which a file could be made. `source` is the
    file that was graded, None where there was none; `seed` draws its hidden cases again. Show
    neither `told` nor `seed` to a model that will be graded with the same seed again.
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
    All are drawn the same hidden cases, by `seed`, or by a random one that no model can know:
    solutions are graded once, and answers are comparable. `root` is as for Examiner. `close()`
    waits for the grades under way and ends all processes; so does dropping the object. Raises
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
        # What is wrong is raised here and now, not in a thread; it starts no process.
        first = Examiner((chip,), isolation, Path(root) if root else None)
        self._katas = {kata.id: kata for kata in matching(first.root, name)}
        self.tasks: tuple[dict[str, Any], ...] = tuple(
            task(kata, chip) for kata in self._katas.values()
        )
        self.seed = random_seed() if seed is None else seed
        self._pool = ExaminerPool(lambda: Examiner((chip,), isolation, first.root), workers)
        # Harnesses drop what they use, and none says when: processes end with this object.
        self.close = weakref.finalize(self, self._pool.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __deepcopy__(self, _memo: object) -> Self:
        return self  # harnesses copy what they grade with; processes are shared

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
