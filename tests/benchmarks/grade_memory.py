"""MB that each process of an Examiner holds, after so many submissions.

    python tests/benchmarks/grade_memory.py [--submissions 60] [--every 10] [--each 10] [NAME …]

Right and wrong submissions for each kata in turn, each a text of its own, all of one seed, as
`kata grade` judges them. Private memory that is resident is counted, in MB of 10^6 bytes.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from grader.api import Examiner
from grader.exercise.catalog import SOLUTIONS, Kata, katas, named
from grader.exercise.mistakes import wrong_version

ROOT = Path(__file__).parents[2]
NAMES = ("constant_add", "tiled_matmul", "row_softmax", "causal_flash", "ring_of_slots")


def submissions(chosen: list[Kata], each: int) -> Iterator[tuple[Kata, str]]:
    """Without end: of each kata some in a row, as a worker gets them, then of the next."""
    for turn in itertools.count():
        for kata in chosen:
            right = kata.solution.read_text(encoding="utf-8")
            texts = [right, *(wrong_version(right, mistake) for mistake in kata.key.mistakes)]
            for number in range(each):
                yield kata, f"{texts[number % len(texts)]}\n# {turn}.{number}\n"


def resident(pid: int) -> float:
    """MB of private memory that are in use."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"^RssAnon:\s+(\d+) kB", status, re.MULTILINE)
    return int(found.group(1)) / 1e3 if found else 0.0


def of_each(examiner: Examiner) -> dict[str, float]:
    """MB by process."""
    found = {"examiner": resident(os.getpid())}
    if examiner.bench:
        found |= {post.value: resident(pid) for post, pid in examiner.bench.pids.items()}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--submissions", type=int, default=60)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--each", type=int, default=10, help="of one kata in a row")
    options = parser.parse_args()
    every = katas(ROOT, SOLUTIONS)
    chosen = [kata for name in options.names for kata in named(every, name)]
    began = time.perf_counter()
    with Examiner(isolation="auto", root=ROOT) as examiner:
        for number, (kata, text) in enumerate(submissions(chosen, options.each)):
            if number % options.every == 0:
                held = of_each(examiner)
                told = ", ".join(f"{name} {size:,.0f}" for name, size in held.items())
                seconds = time.perf_counter() - began
                print(
                    f"{number:5} in {seconds:5.0f} s: {sum(held.values()):6,.0f} MB: {told}",
                    flush=True,
                )
            if number == options.submissions:
                break
            examiner.grade(kata.id, text, seed=1)


if __name__ == "__main__":
    main()
