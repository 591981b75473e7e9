"""MB that each process holds after so many submissions, or its peak over a whole pytest session.

    python tools/benchmarks/grade_memory.py [--submissions 60] [--every 10] [--each 10] [NAME …]
    python tools/benchmarks/grade_memory.py --session [NAME …]

Right and wrong submissions for each kata in turn, each a text of its own, all of one seed, as
`kata grade` judges them. Private memory that is resident is counted, in MB of 10^6 bytes.

With --session, a copy of the repository in which every kata is solved (or those that a NAME
selects) is graded by pytest in this process. For each post, the table says how many processes
stood there, the private memory that one of them held at most after a hidden case, and its peak of
resident memory as Linux counts it, which includes files such as libtpu's.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.api import Examiner
from grader.exercise.catalog import (
    SOLUTIONS,
    Kata,
    katas,
    matching_katas,
)
from grader.exercise.mutants import wrong_version
from grader.plugin.items import SESSION

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


def status(pid: int, field: str) -> float:
    """MB that a line of /proc/PID/status gives: RssAnon (private, resident) or VmHWM (peak)."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    found = re.search(rf"^{field}:\s+(\d+) kB", text, re.MULTILINE)
    return int(found.group(1)) * 1024 / 1e6 if found else 0.0


def parent(pid: int) -> int:
    """The process that has started this one: of a worker, the zygote."""
    text = Path(f"/proc/{pid}/stat").read_text()
    return int(text.rpartition(")")[2].split()[1])


def of_each(examiner: Examiner) -> dict[str, float]:
    """MB by process."""
    found = {"examiner": status(os.getpid(), "RssAnon")}
    if examiner.pool:
        found |= {post.value: status(pid, "RssAnon") for post, pid in examiner.pool.pids.items()}
    return found


class Peaks:
    """A pytest plugin: looks at the workers after each hidden case."""

    def __init__(self) -> None:
        self.pids: dict[str, set[int]] = defaultdict(set)
        self.private: dict[str, float] = defaultdict(float)
        self.resident: dict[str, float] = defaultdict(float)

    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        if not (pool := item.config.stash[SESSION].pool):
            return
        workers = [(post.value, pid) for post, pid in pool.pids.items()]
        zygotes = [("zygote", parent(pid)) for _, pid in workers]
        for name, pid in [*workers, *zygotes, ("pytest", os.getpid())]:
            self.pids[name].add(pid)
            self.private[name] = max(self.private[name], status(pid, "RssAnon"))
            self.resident[name] = max(self.resident[name], status(pid, "VmHWM"))


def session(names: list[str]) -> None:
    """Grade a copy in which the katas are solved, and print each process's peaks."""
    every = katas(ROOT, SOLUTIONS)
    chosen = [kata for name in names for kata in matching_katas(every, name)] or every
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for part in ("katas", "solutions"):
            shutil.copytree(ROOT / part, root / part)
        shutil.copy(ROOT / "pyproject.toml", root)
        for kata in chosen:
            shutil.copy(kata.solution, root / "katas" / kata.track / f"{kata.stem}.py")
        os.chdir(root)
        peaks = Peaks()
        files = [f"katas/{kata.track}/{kata.stem}.py" for kata in chosen]
        pytest.main(["-q", "--kata-seed=1", "-p", "no:cacheprovider", *files], plugins=[peaks])
        os.chdir(ROOT)
    print(f"{'post':10} processes  private MB  peak resident MB")
    for name, pids in peaks.pids.items():
        private, resident = peaks.private[name], peaks.resident[name]
        print(f"{name:10} {len(pids):9}  {private:10,.0f}  {resident:16,.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--submissions", type=int, default=60)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--each", type=int, default=10, help="of one kata in a row")
    parser.add_argument("--session", action="store_true", help="of pytest, instead of an Examiner")
    options = parser.parse_args()
    if options.session:
        return session(options.names)
    every = katas(ROOT, SOLUTIONS)
    chosen = [kata for name in options.names or NAMES for kata in matching_katas(every, name)]
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
