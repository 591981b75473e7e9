"""What grading costs, as whole processes, beside the bare minimum in the same run.

    python tests/benchmarks/whole_process.py [--runs 10]

bare     python -c: import jax, Pallas and jaxtyping, one kernel call in the strict interpreter
one      pytest -k constant_add: four hidden cases of a solved kata
track    pytest -n 2: the whole first track, solved

The runs alternate, so that a machine whose speed drifts drifts for all; read the ratios.
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
    """A repository in which every kata is solved."""
    (folder / "solutions").symlink_to(ROOT / "solutions")
    (folder / "pytest.ini").write_text("[pytest]\ntestpaths = katas\n")
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


def main() -> None:
    """Run everything in turn and print the table."""
    parser = argparse.ArgumentParser(description="Time the grader against the bare minimum.")
    parser.add_argument("--runs", type=int, default=10)
    runs = parser.parse_args().runs
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    commands = {
        "bare": [sys.executable, "-c", BARE],
        "one": [*pytest, "-k", "constant_add"],
        "track": [*pytest, "-n", "2", "-k", "basics"],
    }
    taken: dict[str, list[float]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as scratch:
        folder = solved(Path(scratch))
        for run in range(runs + 1):  # the first fills the file cache and is not counted
            for name, command in commands.items():
                spent = seconds(command, folder)
                if run:
                    taken[name].append(spent)
    bare = statistics.median(taken["bare"])
    print(f"{'':8}{'median s':>10}{'min':>8}{'max':>8}{'ratio to bare':>16}   ({runs} runs)")
    for name, values in taken.items():
        median = statistics.median(values)
        row = f"{name:8}{median:10.2f}{min(values):8.2f}{max(values):8.2f}"
        print(f"{row}{median / bare:16.2f}")


if __name__ == "__main__":
    main()
