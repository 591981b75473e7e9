"""One workaround for what Mosaic refuses."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Workaround:
    """For the named operations (for any, where none is named) when Mosaic's text matches `text`.

    `why` is what the TPU can't do, `remedy` the usual workaround, with lines of code indented.
    """

    operations: tuple[str, ...]
    text: str
    why: str
    remedy: str
