"""A failure as pytest's report holds it: in full in its section, as one line elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Headline:
    """What pytest's summary, `--tb=line` and JUnit XML show of a failure."""

    message: str

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, slots=True)
class FailureText:
    """A failure as the learner reads it, in the form that pytest asks of a representation."""

    text: str

    @property
    def reprcrash(self) -> Headline:
        return Headline(self.text.partition("\n")[0])

    def toterminal(self, tw: Any) -> None:
        tw.line(self.text)

    def __str__(self) -> str:
        return self.text
