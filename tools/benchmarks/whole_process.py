"""What grading costs, as whole processes, beside the bare minimum in the same run.

    python tools/benchmarks/whole_process.py [--runs 10] [--against PYTHON]

bare       python -c: import jax, Pallas and jaxtyping, one kernel call in the strict interpreter
collect    pytest --collect-only -k constant_add: pytest itself, our imports, one key
interpret  pytest -k constant_add --kata-mode interpret: and jax, in the plain interpreter
one        pytest -k constant_add: four hidden cases of a solved kata, strict, compiled for a TPU
matmul     pytest -k tiled_matmul: the same of a kernel with a grid of three axes
track      pytest -n 2: the whole first track, solved

PYTHON is an interpreter in which another version of the grader is installed; it runs the same, in
turn, so that a machine whose speed drifts drifts for all: read the ratios.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]

BARE = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from beartype import beartype
from jaxtyping import Array, Float

def kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] + 10

params = pltpu.InterpretParams(num_cores_or_threads=2, detect_races=True)
x = jnp.arange(8192.0)
with pltpu.force_tpu_interpret_mode(params):
    jax.jit(pl.pallas_call(kernel, out_shape=x))(x).block_until_ready()
"""


def solved(folder: Path) -> Path:
    """A repository in which every kata is solved, with the settings of ours."""
    for name in ("solutions", "pyproject.toml", "conftest.py"):
        (folder / name).symlink_to(ROOT / name)
    for solution in (ROOT / "solutions").glob("*/*.py"):
        target = folder / "katas" / solution.parent.name / solution.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(solution.read_text())
    return folder


def seconds(command: list[str], folder: Path) -> float:
    """Wall-clock seconds of one process; it must succeed."""
    started = time.perf_counter()
    subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - started


def commands(python: str) -> dict[str, list[str]]:
    """What is timed, with the grader that this interpreter has."""
    pytest = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
    one = [*pytest, "-k", "constant_add"]
    return {
        "collect": [*one, "--collect-only"],
        "interpret": [*one, "--kata-mode", "interpret"],
        "one": one,
        "matmul": [*pytest, "-k", "tiled_matmul"],
        "track": [*pytest, "-n", "2", "-k", "basics"],
    }


def main() -> None:
    """Run everything in turn and print the table."""
    parser = argparse.ArgumentParser(description="Time the grader against the bare minimum.")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--against", metavar="PYTHON", help="an interpreter with another version")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these rows; bare is always one")
    options = parser.parse_args()
    timed = {"bare": [sys.executable, "-c", BARE]}
    for name, command in commands(sys.executable).items():
        if options.only and name not in options.only:
            continue
        timed[name] = command
        if options.against:
            timed[f"{name}, other"] = commands(options.against)[name]
    taken: dict[str, list[float]] = {name: [] for name in timed}
    with tempfile.TemporaryDirectory() as scratch:
        folder = solved(Path(scratch))
        for run in range(options.runs + 1):  # the first fills the file cache and is not counted
            for name, command in timed.items():
                spent = seconds(command, folder)
                if run:
                    taken[name].append(spent)
    bare = statistics.median(taken["bare"])
    print(
        f"{'':18}{'median s':>10}{'min':>8}{'max':>8}{'ratio to bare':>16}   ({options.runs} runs)"
    )
    for name, values in taken.items():
        median = statistics.median(values)
        row = f"{name:18}{median:10.2f}{min(values):8.2f}{max(values):8.2f}"
        print(f"{row}{median / bare:16.2f}")


if __name__ == "__main__":
    main()
