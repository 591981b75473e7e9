"""From saving a kata to its verdict under `kata watch`, beside a cold `pytest -k` in the same run.

    python tools/benchmarks/watch_time.py [--saves 20] [NAME …]

Every save differs from the one before, in a comment. The next comes a while after pytest has
confirmed the verdict, as it would from a person. Saves and cold runs alternate, so that a machine
whose speed drifts drifts for both; read the ratios.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from grader.exercise.catalog import Kata, katas

ROOT = Path(__file__).parents[2]
PAUSE = 3.0  # seconds, in which a worker is made ready for the next save
VERDICT, CONFIRMED = "✔ ★★★ ", " is confirmed"


def repository(folder: Path) -> Path:
    """The katas as shipped, with pytest's settings."""
    for name in ("solutions", "katas"):
        for file in (ROOT / name).glob("*/*.*"):
            target = folder / file.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.read_bytes())
    (folder / "pytest.ini").write_text("[pytest]\ntestpaths = katas\ntimeout = 60\n")
    return folder


def environ() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}


@contextlib.contextmanager
def watching(root: Path, name: str) -> Iterator[IO[str]]:
    """What `kata watch NAME` writes, line by line, while it runs."""
    command = [sys.executable, "-m", "grader.cli", "watch", name, "--seed", "1"]
    with subprocess.Popen(
        command, cwd=root, env=environ(), stdout=subprocess.PIPE, encoding="utf-8"
    ) as process:
        assert process.stdout
        try:
            yield process.stdout
        finally:
            process.terminate()


def wait_for(lines: IO[str], words: str) -> float:
    """The moment at which a line with these words comes."""
    for line in lines:
        if words in line:
            return time.perf_counter()
    raise SystemExit(f"kata watch ended before it said {words!r}")


def save(kata: Kata, mark: int) -> float:
    """Write the solution with another last line; the moment before."""
    text = kata.solution.read_text(encoding="utf-8")
    started = time.perf_counter()
    kata.path.write_text(f"{text}\n# {mark}\n", encoding="utf-8")
    return started


def cold(root: Path, name: str) -> float:
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-k", name, "--kata-seed", "1"],
        cwd=root,
        env=environ(),
        check=True,
        capture_output=True,
    )
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", default=["constant_add", "tiled_matmul"])
    parser.add_argument("--saves", type=int, default=20)
    options = parser.parse_args()
    for name in options.names:
        with tempfile.TemporaryDirectory() as folder:
            root = repository(Path(folder))
            (kata,) = (kata for kata in katas(root) if kata.name == name)
            warm, whole = [], []
            with watching(root, name) as lines:
                wait_for(lines, "still to do")
                for mark in range(options.saves):
                    time.sleep(PAUSE)
                    started = save(kata, mark)
                    warm.append(wait_for(lines, VERDICT) - started)
                    wait_for(lines, CONFIRMED)
                    if mark % 6 == 0:
                        time.sleep(PAUSE)
                        whole.append(cold(root, name))
        each = f"{min(warm):.2f} to {max(warm):.2f} s, first {warm[0]:.2f} s"
        print(f"{name}: {statistics.median(warm):.2f} s from save to verdict ({each}, {len(warm)})")
        ratio = statistics.median(whole) / statistics.median(warm)
        print(f"  cold pytest -k {name}: {statistics.median(whole):.2f} s, {ratio:.1f} times that")


if __name__ == "__main__":
    main()
