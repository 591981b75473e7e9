"""What pytest says of a submission: a file in a repository, graded by a session of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grader.exercise.catalog import Kata
from tests.support.repositories import ROOT, with_text

SECONDS = 1800


def of_pytest(task: str, text: str, seed: int, environ: Mapping[str, str]) -> tuple[str, int]:
    """State and stars of the worst hidden case."""
    track, _, stem = task.partition("/")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        written = with_text(Kata(ROOT, track, stem), root, text)
        (root / "pytest.ini").write_text("[pytest]\ntestpaths = katas\ntimeout = 30\n")
        grades = root / "grades.json"
        asked = [
            *(sys.executable, "-m", "pytest", "-q", "-p", "grader.plugin"),
            *("-p", "no:cacheprovider", "--kata-isolation=require"),
            *(f"--kata-seed={seed}", f"--kata-json={grades}", str(written.path)),
        ]
        done = subprocess.run(
            asked,
            cwd=root,
            env={**environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
        )
        if not grades.exists():
            raise RuntimeError(f"pytest wrote no grades for {task}:\n{done.stdout[-2000:]}")
        return worst(json.loads(grades.read_text())["grades"])


def worst(grades: list[dict[str, Any]]) -> tuple[str, int]:
    """State and stars of several hidden cases together."""
    states = [grade["state"] for grade in grades]
    state = next(state for state in ("failed", "todo", "passed") if state in states)
    return state, min(grade["stars"] for grade in grades)
