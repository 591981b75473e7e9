"""What it costs to ask the TPU's compiler: each hidden case of the first track, and all of it.

    python tools/benchmarks/tpu_time.py [--runs 3] [--seed 0]

lowers       trace a launch for a TPU and lower its kernels with Mosaic
predicts     the same, then compile it with libtpu, read the schedule and simulate it
own and par  a solution twice, as two files: what is done where par is not known yet
track        pytest -n 2 on all hidden cases of a solved copy of the track, as whole processes,
             with libtpu and with libtpu hidden

The single cases are timed in one process that has loaded everything, one after another. The whole
processes alternate, so that a machine whose speed drifts drifts for both; read their ratio. Where
others use the machine too, read the seconds of CPU: a single case takes about as long where nobody
else does, and the track, on two cores, half as long at the least.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from whole_process import ROOT, solved

from grader.exercise import specs
from grader.exercise.cases import draw
from grader.exercise.catalog import Kata, katas
from grader.verdict import Case
from pallascope.kernels import TracedLaunch
from pallascope.kernels.lowering import for_chip, lower
from pallascope.tools import arrays
from pallascope.tools.files import load_module
from pallascope.tpu import CHIPS, compiler
from pallascope.tpu.chips import DEFAULT
from pallascope.tpu.libtpu import device
from pallascope.tpu.predict import predictions_of_launch

TRACK = "1_basics"
#: `import libtpu` finds nothing.
HIDDEN = "import sys; sys.modules['libtpu'] = None\n"


@dataclass(frozen=True, slots=True, order=True)
class Spent:
    """Seconds, by the wall's clock and of CPU."""

    wall: float
    cpu: float


class Times:
    """What was spent, by what was done, each with the case it was done for."""

    def __init__(self) -> None:
        self._taken: dict[str, list[tuple[Spent, str]]] = {}

    def clock(self, what: str, case: str, function: Callable[[], Any]) -> Spent:
        wall, cpu = time.perf_counter(), time.process_time()
        function()
        spent = Spent(time.perf_counter() - wall, time.process_time() - cpu)
        self.add(what, case, spent)
        return spent

    def add(self, what: str, case: str, spent: Spent) -> None:
        self._taken.setdefault(what, []).append((spent, case))

    def table(self) -> Iterator[str]:
        yield "| | cases | median ms | of CPU | worst ms | of CPU | worst case |"
        yield "|---|---|---|---|---|---|---|"
        for what, taken in self._taken.items():
            every = [spent for spent, _ in taken]
            middle = Spent(_median(s.wall for s in every), _median(s.cpu for s in every))
            worst, case = max(taken)
            numbers = (middle.wall, middle.cpu, worst.wall, worst.cpu)
            cells = " | ".join(f"{1e3 * seconds:.0f}" for seconds in numbers)
            yield f"| {what} | {len(taken)} | {cells} | {case} |"


def _median(seconds: Iterable[float]) -> float:
    return statistics.median(seconds)


def single_cases(seed: int) -> Times:
    """Each hidden case once, in this process."""
    times = Times()
    for kata in katas(ROOT, "solutions"):
        if kata.track == TRACK and kata.key.kernel:
            own, par = _loaded(kata, "own"), _loaded(kata, "par")
            for case in draw(kata.id, kata.key, seed):
                _case(times, kata, case, own, par)
    return times


def _case(times: Times, kata: Kata, case: Case, own: ModuleType, par: ModuleType) -> None:
    reference = specs.reference(par, kata.name, case)
    inputs = [arrays.to_numpy(array) for array in reference.inputs]
    keywords: dict[str, Any] = reference.keywords
    launches = [getattr(module, kata.name) for module in (own, par)]
    chip, words = CHIPS[DEFAULT], f"{kata.name} {case}"

    def lowered() -> None:
        with for_chip(chip.kind, chip.cores):
            for kernel in TracedLaunch.of(launches[0], inputs, keywords).kernels(inputs):
                lower(kernel)

    def predicted(launch: Callable[..., Any]) -> None:
        with for_chip(chip.kind, chip.cores):
            traced = TracedLaunch.of(launch, inputs, keywords)
        assert all(found.schedule for found in predictions_of_launch(traced, inputs, DEFAULT))

    times.clock("lowers", words, lowered)
    both = [
        times.clock("predicts", words, functools.partial(predicted, launch)) for launch in launches
    ]
    together = Spent(sum(spent.wall for spent in both), sum(spent.cpu for spent in both))
    times.add("own and par", words, together)


def _loaded(kata: Kata, role: str) -> ModuleType:
    """A solution as a module of its own: jax remembers what it has traced by function."""
    return load_module(kata.solution, f"{kata.stem}_{role}")


def whole_track(runs: int) -> dict[str, list[Spent]]:
    """What pytest processes take, by whether they find libtpu."""
    taken: dict[str, list[Spent]] = {"without libtpu": [], "with libtpu": []}
    with tempfile.TemporaryDirectory() as scratch:
        folder, hidden = solved(Path(scratch)), Path(scratch) / "hidden"
        hidden.mkdir()
        (hidden / "sitecustomize.py").write_text(HIDDEN)
        for _ in range(runs):
            for name, spent in taken.items():
                found = name == "with libtpu"
                paths = [str(ROOT)] if found else [str(hidden), str(ROOT)]
                spent.append(_session(folder, paths, found))
    return taken


def _session(folder: Path, paths: list[str], compiled: bool) -> Spent:
    """One session and all of its workers; every case must earn all stars."""
    grades = folder / "grades.json"
    options = ["-n", "2", "-p", "no:cacheprovider", f"--kata-json={grades}", "-k", "basics"]
    environ = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": os.pathsep.join(paths)}
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    spent = Spent(time.perf_counter() - started, cpu)
    if ran.returncode:
        raise SystemExit(f"{ran.stdout}\n{ran.stderr}")
    for grade in json.loads(grades.read_text())["grades"]:
        simulated = grade["cost"]["cycles"] is not None
        assert (grade["stars"], simulated) == (3, compiled), grade
    return spent


def main() -> None:
    """Time everything and print the tables."""
    parser = argparse.ArgumentParser(description="Time lowering, compiling and simulating.")
    parser.add_argument("--runs", type=int, default=3, help="of the whole track, each way")
    parser.add_argument("--seed", type=int, default=0, help="draws the hidden cases")
    options = parser.parse_args()
    if reason := compiler.unavailable_reason():
        raise SystemExit(reason)
    started = time.perf_counter()
    device(CHIPS[DEFAULT])
    print(f"loading libtpu: {time.perf_counter() - started:.2f} s\n")
    print("\n".join(single_cases(options.seed).table()), flush=True)
    taken = whole_track(options.runs)
    print(f"\n| track, {options.runs} runs each | median s | of CPU | min | max |")
    print("|---|---|---|---|---|")
    for name, every in taken.items():
        walls = [spent.wall for spent in every]
        numbers = (_median(walls), _median(spent.cpu for spent in every), min(walls), max(walls))
        print(f"| {name} | {' | '.join(f'{seconds:.1f}' for seconds in numbers)} |")
    with_it, without = (_median(s.cpu for s in taken[f"{w} libtpu"]) for w in ("with", "without"))
    print(f"\nwith libtpu, the track takes {with_it / without:.2f} times the CPU")


if __name__ == "__main__":
    main()
