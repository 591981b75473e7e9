"""What holds for the whole of a watch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Settings:
    """`only` is as for pytest's -k, "" for all katas.

    `seconds` is how long a hidden case may take, None for ever.
    """

    root: Path
    only: str
    seed: int
    chip: str
    seconds: float | None
