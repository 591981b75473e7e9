"""What is said of an answer key that can't be used."""

from __future__ import annotations

from pathlib import Path


class KeyProblem(ValueError):
    """An answer key that can't be used: which file, which key, why."""

    def __init__(self, file: Path, key: str, reason: str) -> None:
        super().__init__(f"{file}: {key}: {reason}")
