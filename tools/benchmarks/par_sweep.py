"""Whether other block sizes than those of [production] make the solutions faster.

    python tools/benchmarks/par_sweep.py [NAME …] [--chip v5e] [--tolerance 0.05]

Each block size is halved and doubled, as long as that makes the solution faster; then the next one.
A size is a block size if its name is in lower case, the inputs keep their shapes without it, and
the spec doesn't take it. The same blocks serve all chips, so times are compared by their geometric
mean over the chips. Every chip has to accept the blocks, with all dtypes and sizes that
[production] draws, and none may be slower with them by more than 2 %. Prints a row for each
solution that other blocks make faster by more than the tolerance, and exits with 1 if there is one
that ACCEPTED doesn't name. Nothing is run, so no TPU is needed; all solutions take several hours on
one core.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import itertools
import math
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from grader.exercise.cases import draw  # noqa: E402
from grader.exercise.catalog import Kata, katas  # noqa: E402
from grader.exercise.key_tables import KataKind  # noqa: E402
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
        "launch_matmul is the kata about blocks",
    ),
    "right_on_one_core": "its case file names these blocks",
    "launch_matmul": "larger blocks hide that the order of the steps matters",
    **dict.fromkeys(
        ("lookahead", "fit_vmem"), "bm rows belong to one expert, so another bm is another problem"
    ),
    **dict.fromkeys(
        ("f32_in_three", "int8_matmul"),
        "with larger blocks, the versions that they are compared with need more VMEM",
    ),
    "vmap_a_kernel": "a block of all rows would leave nothing to show about a grid",
    "chunked_prefill": "larger blocks hide the work with pages that a block can't see",
    "packed_int4": "larger blocks leave too few registers for right kernels in other styles",
    "fp8_matmul": "larger blocks hide that x is quantised once",
    "flash_backward_dkv": "larger blocks hide the transposes that it teaches to avoid",
}

#: Names of inputs' properties, which neither their shapes nor the spec show.
OF_INPUTS = {"before", "pattern", "percent", "bits"}

#: A change has to save more than 1 %, or the search would go on for nothing.
LEAST = 0.99
#: Other blocks may be slower on one chip by 2 %.
SLOWER = 1.02


def shapes(inputs: list[Any]) -> list[tuple[tuple[int, ...], str]]:
    """Shape and dtype of each input."""
    return [(tuple(array.shape), str(array.dtype)) for array in inputs]


class Sweep:
    """Predicted times of one solution, by the sizes of its production case."""

    def __init__(self, kata: Kata, chips: Sequence[str]) -> None:
        self._numbers = importlib.import_module("tests.support.docstring_numbers")
        self._kata = kata
        self._chips = chips_with_cores(kata.key.cores, chips)
        self._module = self._numbers._module(kata.solution, kata.solution.read_text("utf-8"))
        self.case: Case = self._numbers._case(kata, {})
        _, spec, inputs = self._traced(self.case)
        self._inputs = shapes(inputs)
        self._known: dict[tuple[int, ...], tuple[float, ...]] = {}
        free = self.case.sizes.keys() - spec.keywords.keys() - OF_INPUTS
        self.blocks = [
            name
            for name in self.case.sizes
            if name in free and name[0].islower() and self._is_block(name)
        ]
        small = [case for seed in range(9) for case in draw(kata.id, kata.key, seed)]
        self._drawn = {str(case): case for case in small if case.production}
        self._multiples = {
            block: [
                name
                for name in self.case.sizes.keys() - set(self.blocks)
                if all(case.sizes[name] % case.sizes[block] == 0 for case in small)
            ]
            for block in self.blocks
        }

    def _traced(self, case: Case) -> Any:
        return self._numbers._traced(self._module, self._kata.name, case)

    def _with(self, sizes: Mapping[str, int]) -> Case:
        return dataclasses.replace(self.case, sizes={**self.case.sizes, **sizes})

    def all_have_a_time(self, sizes: Mapping[str, int]) -> bool:
        """Whether all production cases of nine seeds have a time with these blocks."""
        blocks = {block: sizes[block] for block in self.blocks}
        cases = (dataclasses.replace(c, sizes={**c.sizes, **blocks}) for c in self._drawn.values())
        return all(self._on(case, chip, False) for case in cases for chip in self._chips)

    def _is_block(self, name: str) -> bool:
        """Whether the inputs keep their shapes with another size of this name."""
        for size in (self.case.sizes[name] * 2, self.case.sizes[name] // 2):
            try:
                return shapes(self._traced(self._with({name: size}))[2]) == self._inputs
            except Exception:  # a size that doesn't fit raises anything
                continue
        return False

    def seconds(self, sizes: Mapping[str, int]) -> tuple[float, ...]:
        """The time with these blocks on each chip; () if a chip doesn't accept them, or if they
        don't divide a size that blocks divide in all cases."""
        case = self._with(sizes)
        asked = tuple(case.sizes[block] for block in self.blocks)
        if asked not in self._known:
            whole = all(
                size > 0 and all(case.sizes[name] % size == 0 for name in self._multiples[block])
                for block, size in case.sizes.items()
                if block in self.blocks
            )
            times = [self._on(case, chip) for chip in self._chips] if whole else [None]
            self._known[asked] = () if None in times else tuple(filter(None, times))
        return self._known[asked]

    def _on(self, case: Case, chip: str, same_shapes: bool = True) -> float | None:
        """The time on a chip; None if it isn't known, or if inputs have other shapes."""
        from pallascope.tpu import predictions

        try:
            launch, _, inputs = self._traced(case)
            if same_shapes and shapes(inputs) != self._inputs:
                return None
            kernels = predictions(launch, *inputs, chip=chip)
        except Exception:  # a size that doesn't fit raises anything, in the solution or in jax
            return None
        times = [None if kernel.outside else kernel.seconds for kernel in kernels]
        return None if None in times else sum(filter(None, times)) or None

    def best(self) -> dict[str, int]:
        """The blocks with the smallest mean time that single changes lead to."""
        found, before = dict(self.case.sizes), None
        while found != before:
            before = found
            for name, factor in itertools.product(self.blocks, (2, 0.5)):
                tried = self._scaled(found, name, factor)
                while self.mean(tried) < LEAST * self.mean(found) and self.all_have_a_time(tried):
                    found, tried = tried, self._scaled(tried, name, factor)
        return found

    def mean(self, sizes: Mapping[str, int]) -> float:
        """The geometric mean over the chips; infinite if one of them doesn't accept the blocks, or
        is slower with them than with the solution's own."""
        times, own = self.seconds(sizes), self.seconds(self.case.sizes)
        if not times or any(a > SLOWER * b for a, b in zip(times, own, strict=True)):
            return math.inf
        return statistics.geometric_mean(times)

    def _scaled(self, sizes: Mapping[str, int], name: str, factor: float) -> dict[str, int]:
        return {**sizes, name: int(sizes[name] * factor)}


def faster(names: list[str], chips: Sequence[str], tolerance: float) -> Iterator[tuple[str, str]]:
    """For each solution that other blocks make faster: its name, and a row of the table."""
    for kata in katas(ROOT, "solutions"):
        if names and kata.name not in names:
            continue
        if not kata.key.target.uses_libtpu or kata.key.mesh or not kata.key.production:
            continue
        if kata.key.kind not in (KataKind.KERNEL, KataKind.CASE_FILE):
            continue
        sweep = Sweep(kata, chips)
        own = sweep.case.sizes
        if not sweep.seconds(own):
            continue
        sizes = sweep.best()
        if sweep.mean(sizes) < (1 - tolerance) * sweep.mean(own):
            change = ", ".join(f"{n}={own[n]} → {sizes[n]}" for n in own if own[n] != sizes[n])
            times = [
                f"{format_time(ours)} → {format_time(best)} ({1 - best / ours:.0%} less)"
                for ours, best in zip(sweep.seconds(own), sweep.seconds(sizes), strict=True)
            ]
            yield kata.name, f"| {kata.name} | {change} | {' | '.join(times)} |"


def main() -> int:
    """Print the table; gives the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="solutions (default: all)")
    parser.add_argument("--chip", choices=list(CHIPS), action="append")
    parser.add_argument("--tolerance", type=float, default=0.05)
    options = parser.parse_args()
    importlib.import_module("tests.conftest")  # sets the environment of workers: random bits
    chips = options.chip or ["v5e", "v6e"]
    print(f"| solution | blocks | {' | '.join(chips)} |\n|{'---|' * (2 + len(chips))}", flush=True)
    bad = 0
    for name, row in faster(options.names, chips, options.tolerance):
        print(row, flush=True)
        bad += name not in ACCEPTED
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
