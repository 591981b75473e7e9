"""Tasks for whoever writes submissions: the stub and the rules; no solutions, hints or keys."""

from __future__ import annotations

from typing import Any

from grader.exercise.catalog import Kata
from grader.exercise.regions import BEGIN, END, regions
from grader.tpu.chips import with_cores

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
    stub, judged = kata.shipped(), with_cores(kata.key.cores, (chip,))[0]
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
