"""One thing that makes a kernel slow."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """One cause: in a phrase, why, and what to try.

    `cycles` is about what it costs at most; `size` how many bytes it moves more than par does.
    """

    phrase: str
    why: str
    remedy: str
    cycles: float
    size: int = 0
