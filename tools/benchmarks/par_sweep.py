"""Whether other block sizes than those of [production] make the solutions faster.

    python tools/benchmarks/par_sweep.py [NAME …] [--chip v5e] [--tolerance 0.05]

Each block size is halved and doubled, one at a time, and the best change is tried again in the same
direction. A size is a block size if the inputs keep their shapes without it, and the spec doesn't
take it. Prints a row for each solution that other sizes make faster by more than the tolerance, and
exits with 1 if there is one that ACCEPTED doesn't name. Nothing is run, so no TPU is needed; all
solutions take about half an hour for each chip.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from grader.exercise.catalog import Kata, katas  # noqa: E402
from grader.verdict import Case  # noqa: E402
from pallascope.tools.text import format_time  # noqa: E402
from pallascope.tpu.chips import CHIPS, chips_with_cores  # noqa: E402

#: Solutions with slower blocks than the best, and the reason.
ACCEPTED: dict[str, str] = {
    **dict.fromkeys(
        ("tiled_vector_add", "reversed_blocks", "ragged_tail", "refs_and_slices"),
        "several steps, before blocks are chosen for speed",
    ),
    **dict.fromkeys(
        ("tiled_matmul", "revisit_bug", "batched_matmul", "fused_matmul", "nan_now_and_then"),
        "launch_matmul is the kata about larger blocks",
    ),
    "right_on_one_core": "its case file names these blocks",
    "flash_backward_dkv": "larger blocks hide the transposes that it teaches to avoid",
}


def shapes(inputs: list[Any]) -> list[tuple[tuple[int, ...], str]]:
    """Shape and dtype of each input."""
    return [(tuple(array.shape), str(array.dtype)) for array in inputs]


class Sweep:
    """Predicted times of one solution on one chip, by the sizes of its production case."""

    def __init__(self, kata: Kata, chip: str) -> None:
        self._numbers = importlib.import_module("tests.support.docstring_numbers")
        self._kata = kata
        self._chip = chips_with_cores(kata.key.cores, [chip])[0]
        self._module = self._numbers._module(kata.solution, kata.solution.read_text("utf-8"))
        self.case: Case = self._numbers._case(kata, {})
        _, spec, inputs = self._traced(self.case)
        self._inputs = shapes(inputs)
        self._of_spec = spec.keywords

    def _traced(self, case: Case) -> Any:
        return self._numbers._traced(self._module, self._kata.name, case)

    def seconds(self, sizes: dict[str, int]) -> float | None:
        """The time with these sizes; None if they aren't blocks alone, or aren't accepted."""
        from pallascope.tpu import predictions

        try:
            launch, _, inputs = self._traced(dataclasses.replace(self.case, sizes=sizes))
            if shapes(inputs) != self._inputs:
                return None
            kernels = predictions(launch, *inputs, chip=self._chip)
        except Exception:  # a size that doesn't fit raises anything, in the solution or in jax
            return None
        times = [kernel.seconds for kernel in kernels if not kernel.outside]
        if len(times) < len(kernels) or None in times:
            return None
        return sum(filter(None, times)) or None

    def best(self, base: float) -> tuple[dict[str, int], float]:
        """The best changes of one block size, and their time."""
        found, least = dict(self.case.sizes), base
        for name, size in self.case.sizes.items():
            if name in self._of_spec:
                continue
            for other in (size * 2, size // 2):
                while other > 0 and (tried := self._at(name, other)) is not None:
                    if tried >= least:
                        break
                    found, least = {**self.case.sizes, name: other}, tried
                    other = other * 2 if other > size else other // 2
        return found, least

    def _at(self, name: str, size: int) -> float | None:
        return self.seconds({**self.case.sizes, name: size})


def faster(names: list[str], chip: str, tolerance: float) -> Iterator[tuple[str, str]]:
    """For each solution that other blocks make faster: its name, and a row of the table."""
    for kata in katas(ROOT, "solutions"):
        if names and kata.name not in names:
            continue
        if not kata.key.target.uses_libtpu or kata.key.mesh or not kata.key.production:
            continue
        try:
            sweep = Sweep(kata, chip)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            print(f"| {kata.name} | {chip} | {reason} |  |  |  |", flush=True)
            continue
        if (base := sweep.seconds(sweep.case.sizes)) is None:
            continue
        sizes, least = sweep.best(base)
        if least < (1 - tolerance) * base:
            own = sweep.case.sizes
            change = ", ".join(f"{n}={own[n]} → {sizes[n]}" for n in own if own[n] != sizes[n])
            times = f"{format_time(base)} | {format_time(least)} | {1 - least / base:.0%}"
            yield kata.name, f"| {kata.name} | {chip} | {change} | {times} |"


def main() -> int:
    """Print the table; gives the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="solutions (default: all)")
    parser.add_argument("--chip", choices=list(CHIPS), action="append")
    parser.add_argument("--tolerance", type=float, default=0.05)
    options = parser.parse_args()
    importlib.import_module("tests.conftest")  # sets the environment of workers: random bits
    print(f"| solution | chip | blocks | time | best | less |\n|{'---|' * 6}", flush=True)
    bad = 0
    for chip in options.chip or ("v5e", "v6e"):
        for name, row in faster(options.names, chip, options.tolerance):
            print(row, flush=True)
            bad += name not in ACCEPTED
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
