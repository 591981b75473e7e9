"""A table of a TOML file, and the complaints about it: which file, which key, why."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.exercise.keys.problem import KeyProblem
from grader.tools.nearest import did_you_mean


@dataclass(frozen=True, slots=True)
class Table:
    """Reads values of the kind that is asked for; raises KeyProblem for those of another."""

    file: Path
    data: dict[str, Any]

    def fail(self, key: str, reason: str) -> KeyProblem:
        return KeyProblem(self.file, key, reason)

    def known(self, table: dict[str, Any], names: list[str], prefix: str = "") -> None:
        for name in table:
            if name not in names:
                advice = did_you_mean(name, names) or f"known: {', '.join(names)}"
                raise self.fail(prefix + name, f"unknown key; {advice}")

    def text(self, name: str) -> str:
        value = self.data.get(name)
        if not isinstance(value, str) or not value.strip():
            raise self.fail(name, "needs a text that is not empty")
        return value

    def texts(self, name: str, default: tuple[str, ...]) -> tuple[str, ...]:
        value = self.data.get(name, list(default))
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.fail(name, "needs a list of texts")
        return tuple(value)

    def number(self, name: str, default: int, low: int, high: int) -> int:
        value = self.data.get(name, default)
        if type(value) is not int or not low <= value <= high:
            raise self.fail(name, f"needs a whole number from {low} to {high}, not {value!r}")
        return value
