"""Submissions an hour: `kata grade --workers 2` beside `pytest -n 2`, on the same work.

    python tools/benchmarks/grade_throughput.py [--students 8] [--rounds 1] [--workers 2] [NAME …]

Each student has an answer to each kata: the first all solutions, the others known mistakes.
`pytest -n 2` grades one student's clone after another, as whoever has no `kata grade` would. Both
use the same seed, and the verdicts are compared. Rounds alternate, so that a machine whose speed
drifts drifts for both; read the ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.exercise.catalog import (
    SOLUTIONS,
    Kata,
    katas,
    matching_katas,
)
from grader.exercise.mutants import wrong_version

ROOT = Path(__file__).parents[2]
NAMES = (
    *("constant_add", "scale_2d", "row_sum", "tiled_matmul", "row_softmax", "rope"),
    *("online_softmax", "causal_flash", "group_ids", "double_buffer"),
)


@dataclass(frozen=True, slots=True)
class Took:
    """Wall-clock and CPU seconds."""

    wall: float
    cpu: float


def text_of(kata: Kata, student: int, turn: int) -> str:
    """What a student wrote: no text twice in a run."""
    right = kata.solution.read_text(encoding="utf-8")
    mistakes = kata.key.mistakes
    if student and mistakes:
        right = wrong_version(right, mistakes[(student - 1) % len(mistakes)])
    return f"{right}\n# {turn}.{student}\n"


def timed(command: Sequence[str], folder: Path) -> Took:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if ran.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)}\n{ran.stdout}{ran.stderr}")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Took(wall, used)


def by_pytest(folder: Path, chosen: list[Kata], student: int, turn: int) -> tuple[Took, list[int]]:
    """One student's clone: what it takes, and the stars of each kata."""
    (folder / "solutions").symlink_to(ROOT / "solutions")
    (folder / "pytest.ini").write_text("[pytest]\ntestpaths = katas\n")
    files = [folder / kata.path.relative_to(kata.root) for kata in chosen]
    for kata, file in zip(chosen, files, strict=True):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text_of(kata, student, turn), encoding="utf-8")
    grades = folder / "grades.json"
    words = ["-n2", "-q", "--kata-seed=1", f"--kata-json={grades}", *map(str, files)]
    took = timed([sys.executable, "-m", "pytest", "-p", "grader.plugin", *words], folder)
    found = json.loads(grades.read_text())["grades"]
    stars = {
        kata.id: min(grade["stars"] for grade in found if grade["kata"] == kata.id)
        for kata in chosen
    }
    return took, list(stars.values())


def by_grade(
    folder: Path, chosen: list[Kata], students: int, turn: int, workers: int
) -> tuple[Took, list[int]]:
    """All students' answers in one file."""
    samples = folder / "samples.jsonl"
    rows = [
        {"task_id": kata.id, "completion": text_of(kata, student, turn)}
        for student in range(students)
        for kata in chosen
    ]
    samples.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    out = folder / "out.jsonl"
    words = [str(samples), "--out", str(out), "--seed=1", f"--workers={workers}"]
    command = [sys.executable, "-m", "grader.cli", "grade", *words, "--isolation=auto"]
    took = timed(command, ROOT)
    return took, [json.loads(line)["stars"] for line in out.read_text().splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--students", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    every = katas(ROOT, SOLUTIONS)
    chosen = [kata for name in options.names for kata in matching_katas(every, name)]
    count = options.students * len(chosen)
    for turn in range(options.rounds):
        with tempfile.TemporaryDirectory() as scratch:
            runs = []
            for student in range(options.students):
                clone = Path(scratch, str(student))
                clone.mkdir()
                runs.append(by_pytest(clone, chosen, student, turn))
            cold = Took(sum(took.wall for took, _ in runs), sum(took.cpu for took, _ in runs))
            warm, stars = by_grade(Path(scratch), chosen, options.students, turn, options.workers)
        told = [one for _, each in runs for one in each]
        print(f"{count} submissions, round {turn + 1}")
        for name, took in (("pytest -n 2", cold), ("kata grade", warm)):
            an_hour = 3600 * count / took.wall
            each = took.cpu / count
            print(f"  {name:12}{an_hour:8,.0f} an hour, {each:5.2f} CPU s each", flush=True)
        print(
            f"  ratio       {cold.wall / warm.wall:8.2f} of wall, {cold.cpu / warm.cpu:.2f} of CPU"
        )
        print(f"  verdicts    {'the same' if told == stars else f'differ: {told} {stars}'}")


if __name__ == "__main__":
    main()
