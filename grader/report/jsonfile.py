"""Grades for machines: the file of --kata-json.

The schema is documented in CONTRIBUTING.md. A change that a reader could trip over raises VERSION.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grader.model import Conditions, Grade
from grader.tools import codec
from grader.tools.versions import versions

VERSION = 3


def document(grades: Sequence[Grade], conditions: Conditions) -> dict[str, Any]:
    """The whole file as builtins. Grades stand in the order of kata and case."""
    ordered = sorted(grades, key=lambda grade: (grade.kata, grade.case))
    return {
        "schema": VERSION,
        "seed": conditions.seed,
        "backend": conditions.device.backend,
        "mode": conditions.device.mode.value,
        "chips": list(conditions.chips),
        "gpu": conditions.gpu,
        "isolation": conditions.isolation,
        "versions": versions(),
        "grades": codec.to_builtins(ordered),
    }


def write_json(file: Path, grades: Sequence[Grade], conditions: Conditions) -> None:
    """Write the document; makes its folder where there is none."""
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(document(grades, conditions), indent=2, ensure_ascii=False)
    file.write_text(text + "\n", encoding="utf-8", errors="backslashreplace")
