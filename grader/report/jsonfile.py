"""Grades for machines: the file of --kata-json, and JUnit XML's properties.

The schema is documented in CONTRIBUTING.md. A change that a reader could trip over raises VERSION.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from grader import codec
from grader.model import Grade
from grader.session import Session

VERSION = 2


def document(grades: Sequence[Grade], session: Session) -> dict[str, Any]:
    """The whole file as builtins. Grades stand in the order of kata and case."""
    ordered = sorted(grades, key=lambda grade: (grade.kata, grade.case))
    return {
        "schema": VERSION,
        "seed": session.seed,
        "backend": session.device.backend,
        "mode": session.device.mode.value,
        "chips": list(session.chips),
        "versions": versions(),
        "grades": codec.to_builtins(ordered),
    }


def write(file: Path, grades: Sequence[Grade], session: Session) -> None:
    """Write the document, making its folder if need be."""
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(document(grades, session), indent=2, ensure_ascii=False)
    file.write_text(text + "\n", encoding="utf-8", errors="backslashreplace")


def properties(grade: Grade) -> list[tuple[str, str]]:
    """One grade as JUnit XML properties of its test case."""
    found = [
        ("kata", grade.kata),
        ("kata_state", grade.state.value),
        ("kata_stars", str(grade.stars)),
        ("kata_case", grade.drawn),
    ]
    if grade.finding:
        found += [("kata_check", grade.finding.check.value), ("kata_reason", grade.finding.phrase)]
    return found


def versions() -> dict[str, str | None]:
    """What judged, by package; None for one that is not installed."""
    return {name: _version(name) for name in ("pallas-katas", "jax", "jaxlib", "libtpu")}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
