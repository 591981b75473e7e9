"""What one piece of advice holds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refused:
    """For the named operations (any where there is none) when Mosaic's text matches `text`.

    `why` is what the TPU can't do, `way` the usual way round, with lines of code indented.
    """

    operations: tuple[str, ...]
    text: str
    why: str
    way: str
