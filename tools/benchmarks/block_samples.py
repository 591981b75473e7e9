"""The katas whose results are sampled at production size: CPU seconds, elements, average errors.

    python tools/benchmarks/block_samples.py [NAMES]

Prints for each kata for TPUs with a production case the CPU seconds of one sample and the number of
computed elements, or the reason why no block of its solution can be computed. For narrow results,
also the solution's average error, in roundings, and the largest that is accepted.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))

from grader.exercise.key_tables import MESH  # noqa: E402
from grader.sandbox.worker_environment import environment  # noqa: E402
from grader.verdict import Device  # noqa: E402
from pallascope.model import Mode  # noqa: E402

os.environ.update(environment(Device("cpu", Mode.STRICT), os.environ))

import jax  # noqa: E402

from pallascope.runs.run_process import simulate_devices  # noqa: E402

simulate_devices(4)  # for launches for a mesh

import numpy as np  # noqa: E402

from grader.checks.production_values import common_elements  # noqa: E402
from grader.exercise import specs  # noqa: E402
from grader.exercise.cases import case_of_values, hidden_cases  # noqa: E402
from grader.exercise.catalog import Kata, katas  # noqa: E402
from pallascope.checks.compare import NARROW, average_error, explained_error  # noqa: E402
from pallascope.kernels import TracedLaunch, for_chip  # noqa: E402
from pallascope.model import Array, BlockSample  # noqa: E402
from pallascope.tools.arrays import (  # noqa: E402
    drawn_like,
    dtype_of,
    from_numpy,
    to_numpy,
    widened,
)
from pallascope.tools.files import load_module  # noqa: E402
from pallascope.tpu import chips  # noqa: E402


def sampled(kata: Kata, seed: int) -> tuple[BlockSample, float, list[float]]:
    """The sample of a kata's solution, its CPU seconds, average errors of narrow results."""
    module, (*_, hidden, case) = load_module(kata.solution), hidden_cases(kata, seed)
    case = case_of_values(kata, case)
    reference = specs.reference(module, kata.name, case, evaluated=False)
    alike = specs.drawn_inputs(module, kata.name, hidden)
    contents = [
        own if own.data else drawn_like(from_numpy(np.asarray(other)), own.dtype, at)
        for at, (own, other) in enumerate(zip(reference.inputs, alike, strict=True))
    ]

    def sample(convert: Callable[[Array], Array]) -> tuple[BlockSample, float]:
        arrays = [convert(array) for array in reference.inputs]
        values = map(to_numpy, map(convert, contents))
        inputs = [
            value if array.data else (value, array.shape)
            for value, array in zip(values, arrays, strict=True)
        ]
        structs = [jax.ShapeDtypeStruct(a.shape, dtype_of(a.dtype)) for a in arrays]
        keywords: dict[str, Any] = dict(reference.keywords)
        chip = chips.named("v5e" if kata.key.cores == 1 else "v5p")
        with for_chip(chip.kind, chip.cores, kata.key.mesh):
            if kata.key.mesh:
                keywords[MESH] = jax.sharding.get_abstract_mesh()
            launch = TracedLaunch.of(getattr(module, kata.name), structs, keywords)
            started = time.process_time()
            found = launch.block_sample(inputs, case.seed, kata.key.mesh)
            return found, time.process_time() - started

    own, seconds = sample(lambda array: array)
    rounded = own.results if kata.key.random is None else ()
    narrow = [at for at, result in enumerate(rounded) if result.values.dtype in NARROW]
    exact, more = sample(widened) if narrow else (own, 0.0)
    errors = []
    for at in narrow if exact.results else ():
        found, got, wanted = common_elements(own.results[at], exact.results[at])
        rows = found // reference.results[at].shape[-1]
        errors.append(average_error(got, wanted, rows, own.results[at].values.dtype))
    return own, seconds + more, errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    spent: list[float] = []
    reasons = 0
    for kata in katas(ROOT, "solutions"):
        key = kata.key
        asked = key.target.name == "tpu" and key.production and key.kernel
        if not asked or not any(name in kata.id for name in options.names or ("",)):
            continue
        sample, seconds, errors = sampled(kata, options.seed)
        spent.append(seconds)
        reasons += bool(sample.why_not)
        sizes = ", ".join(f"{math.prod(result.at.shape):,}" for result in sample.results)
        told = ", ".join(f"{error:.2f}" for error in errors)
        told = f"; errors {told} of {explained_error(key.roundings):.2f}" if told else ""
        print(f"{kata.id:48} {seconds:5.2f} s  {sample.why_not or sizes}{told}", flush=True)
    if spent:
        print(f"{len(spent) - reasons} of {len(spent)} sampled; ", end="")
        print(f"median {statistics.median(spent):.2f} s, worst {max(spent):.2f} s")


if __name__ == "__main__":
    main()
