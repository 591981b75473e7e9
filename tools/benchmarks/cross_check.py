"""How far the solutions of two tracks are from code that is not ours: jax.nn, XLA, JAX's kernels.

    python -m tools.benchmarks.cross_check [WORD …]

For one hidden case of each solution the largest error of any result, relative to the largest
element of that result, by dtype. WORDs choose some by name.
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from grader.exercise.catalog import katas
from tests.support.crosschecking import CLOSE, error_of_solution
from tests.support.independent import INDEPENDENT
from tests.support.repositories import ROOT


def main() -> None:
    """Compare each, and print the table."""
    words = sys.argv[1:]
    print(f"| kata | {' | '.join(CLOSE)} |")
    print("|---|" + "---|" * len(CLOSE))
    for exercise in katas(ROOT, "solutions"):
        asked = not words or any(word in exercise.name for word in words)
        if exercise.name in INDEPENDENT and asked:
            errors = [f"{error_of_solution(exercise, dtype):.1e}" for dtype in CLOSE]
            print(f"| {exercise.name} | {' | '.join(errors)} |", flush=True)


if __name__ == "__main__":
    main()
