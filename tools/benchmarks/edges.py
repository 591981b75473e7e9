"""Which sides of the solutions' comparisons, branches and loops some sessions don't reach.

    python -m tools.benchmarks.edges [--seeds 500] [--all] [WORD …]

For each comparison of integers in a region, a session should have cases in which the left side is
smaller, equal and larger; for each branch, cases that take it or not; for each loop whose length
is computed from the inputs, cases with no turn, one, and more. This lists the sides that some
sessions don't reach, with their number; with --all also those that depend on sizes alone. WORDs
choose katas by name or track. An [edges] table in the key gives reasons for missing sides.

`tests/support/edges.py` evaluates the launches. It skips katas for GPUs, predictions and tests.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from grader.exercise.catalog import katas
from tests.support.edges import Seen, Sessions, is_evaluated
from tests.support.repositories import ROOT


def main() -> None:
    parser = argparse.ArgumentParser(description="List the sides of comparisons not reached.")
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--seeds", type=int, default=500)
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    for kata in katas(ROOT, "solutions"):
        chosen = not arguments.words or any(word in kata.id for word in arguments.words)
        if not chosen or not is_evaluated(kata):
            continue
        sessions, places = Sessions(kata), dict[str, Seen]()
        missing, nearest = Counter[tuple[str, str]](), dict[tuple[str, str], int]()
        for seed in range(1, arguments.seeds + 1):
            for seen in sessions.seen(seed).values():
                where = f"{kata.solution.name}:{seen.line}  {seen.text}"
                places[where] = seen
                if seen.drawn or arguments.all:
                    missing.update((where, side) for side in seen.missing())
                for side, distance in (("below", seen.below), ("above", seen.above)):
                    if seen.drawn and distance:
                        nearest[where, side] = max(distance, nearest.get((where, side), 0))
        print(f"{kata.id}: {len(places)} places", flush=True)
        for (where, side), count in sorted(missing.items()):
            reason = kata.key.edges.get(f"{places[where].text}: {side}")
            told = f" ({reason})" if reason else ""
            print(f"  {where}  {side}: missing in {count} of {arguments.seeds}{told}")
        for (where, side), distance in sorted(nearest.items()):
            if distance > 1:
                print(f"  {where}  {side}: in some session by {distance} or more")
        for where, seen in places.items():
            if seen.unknown:
                print(f"  {where}  depends on floating-point numbers, and isn't evaluated")


if __name__ == "__main__":
    main()
