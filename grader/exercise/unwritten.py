"""What of the katas and tracks is still the template's text, for their author to write over."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from grader.exercise import template
from grader.exercise.catalog import SOLUTIONS, Kata, katas
from grader.exercise.readmes import readme_of


@dataclass(frozen=True, slots=True)
class Unwritten:
    """A file, and its parts that are still the template's, such as "Concept"."""

    file: Path
    parts: tuple[str, ...]


def unwritten(root: Path) -> tuple[Unwritten, ...]:
    """Every file of an author's that is not finished, in the order of the katas."""
    every = katas(root, SOLUTIONS)
    tracks = dict.fromkeys(kata.track for kata in every)
    files = [
        *(file for kata in every for file in _files(kata)),
        *(_readme(readme_of(root, track)) for track in tracks),
    ]
    return tuple(file for file in files if file.parts)


def _files(kata: Kata) -> Iterable[Unwritten]:
    solution, key = (file.read_text(encoding="utf-8") for file in (kata.solution, kata.key_path))
    yield Unwritten(kata.solution, template.left_of_solution(kata.name, solution))
    yield Unwritten(kata.key_path, template.left_of_key(kata.name, key))


def _readme(file: Path) -> Unwritten:
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    return Unwritten(file, template.left_of_track(text))
