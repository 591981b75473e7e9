"""Draw the README's picture of a terminal from what pytest prints.

    python tools/draw_terminal.py            writes docs/terminal.svg
    python tools/draw_terminal.py --check    only compares, except pytest's seconds; exits with 1
                                            if it differs

In a copy of the repository, one kata is solved, one is solved but slow, one is wrong and one is
still to do. The picture shows what `pytest -k …` prints for them, in pytest's own colours.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from grader.exercise.catalog import SOLUTIONS, katas

ROOT = Path(__file__).parents[1]
SELECTION = "constant_add or reversed_blocks or launch_vector or tiled_matmul"
#: What replaces what in the solutions.
ATTEMPTS = {
    "kata_01_constant_add": ("", ""),
    "kata_06_launch_vector_add": ("block = pl.BlockSpec", "bn = 256\n    block = pl.BlockSpec"),
    "kata_10_tiled_matmul": ("acc_ref[...] = jnp.zeros_like(acc_ref)", "pass"),
}
WIDTH = 104
PICTURE = ROOT / "docs/terminal.svg"
SECONDS = re.compile(r" in \d[\d.]*s( \(.*?\))?(?=\x1b|\n|$)")


def session() -> str:
    """What pytest prints in the prepared copy, in its colours; without its seconds."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch)
        shutil.copytree(ROOT / SOLUTIONS, copy / SOLUTIONS)
        for kata in katas(ROOT, SOLUTIONS):
            file = copy / kata.path.relative_to(ROOT)
            file.parent.mkdir(parents=True, exist_ok=True)
            old, new = ATTEMPTS.get(kata.path.stem, (None, ""))
            solved = kata.solution.read_text(encoding="utf-8")
            text = kata.stub_text() if old is None else solved.replace(old, new)
            file.write_text(text, encoding="utf-8")
        subprocess.run(["git", "init", "-q", scratch], check=True)
        (copy / "pytest.ini").write_text("[pytest]\ntestpaths = katas\n")
        shutil.copy(ROOT / "conftest.py", copy)
        command = ["-m", "pytest", "-q", "-x", "-k", SELECTION, "--color=yes", "--kata-seed", "7"]
        ran = subprocess.run(
            [sys.executable, *command, "-r", "N", "-p", "no:cacheprovider"],
            cwd=copy,
            env={**os.environ, "COLUMNS": str(WIDTH)},
            capture_output=True,
            text=True,
            check=False,
        )
    return SECONDS.sub("", ran.stdout)


def svg() -> str:
    """The picture. The same session gives the same bytes."""
    with open(os.devnull, "w") as nowhere:
        console = Console(record=True, width=WIDTH, file=nowhere, force_terminal=True)
        console.print(Text(f'$ pytest -x -k "{SELECTION}"\n', "bold"))
        console.print(Text.from_ansi(session()))
        return console.export_svg(title="Pallas Katas", unique_id="terminal")


def main(check: bool) -> int:
    """Run pytest on the prepared copy and write the picture, or compare it."""
    text = svg()
    if PICTURE.read_text(encoding="utf-8") == text:
        return 0
    print(f"{PICTURE.relative_to(ROOT)}: {'differs' if check else 'written'}")
    if not check:
        PICTURE.write_text(text, encoding="utf-8")
    return int(check)


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
