"""Draw the README's picture of a terminal from what pytest prints.

    python docs/draw_terminal.py        writes docs/terminal.svg

In a copy of the repository, one kata is solved, one is solved but slow, one is wrong and one is
still to do. The picture shows what `pytest -k …` prints for them, in pytest's own colours.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
SELECTION = "constant_add or reversed_blocks or launch_vector or tiled_matmul"
#: What replaces what in the solutions.
ATTEMPTS = {
    "kata_01_constant_add": ("", ""),
    "kata_06_launch_vector_add": ("block = pl.BlockSpec", "bn = 256\n    block = pl.BlockSpec"),
    "kata_10_tiled_matmul": ("acc_ref[...] = jnp.zeros_like(acc_ref)", "pass"),
}
WIDTH = 104


def main() -> None:
    """Run pytest on the prepared copy and write the picture."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch)
        for name in ("katas", "solutions"):
            shutil.copytree(ROOT / name, copy / name)
        subprocess.run(["git", "init", "-q", scratch], check=True)
        (copy / "pytest.ini").write_text("[pytest]\ntestpaths = katas\n")
        solutions = {file.stem: file for file in (copy / "solutions").glob("*/*.py")}
        for stem, (old, new) in ATTEMPTS.items():
            text = solutions[stem].read_text().replace(old, new)
            next(copy.glob(f"katas/*/{stem}.py")).write_text(text)
        command = ["-m", "pytest", "-q", "-x", "-k", SELECTION, "--color=yes", "--kata-seed", "7"]
        ran = subprocess.run(
            [sys.executable, *command, "-r", "N", "-p", "no:cacheprovider"],
            cwd=copy,
            env={**os.environ, "COLUMNS": str(WIDTH)},
            capture_output=True,
            text=True,
            check=False,
        )
    console = Console(record=True, width=WIDTH, file=open(os.devnull, "w"), force_terminal=True)  # noqa: SIM115
    console.print(Text(f'$ pytest -x -k "{SELECTION}"\n', "bold"))
    console.print(Text.from_ansi(ran.stdout))
    console.save_svg(str(ROOT / "docs" / "terminal.svg"), title="Pallas Katas")


if __name__ == "__main__":
    main()
