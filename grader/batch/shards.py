"""Which of several runs judges a sample: by its text, so that what is the same goes to the same."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Self

from grader.batch.samples import Complaint, Sample


@dataclass(frozen=True, slots=True)
class Shard:
    """The `number`-th of `count` parts of any file of samples, from 1."""

    number: int
    count: int

    @classmethod
    def of(cls, text: str) -> Self:
        """What "2/4" means. Raises ValueError."""
        found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
        if not found:
            raise ValueError(f"{text!r} is no shard: give its number and how many there are, 2/4")
        number, count = map(int, found.groups())
        if not count:
            raise ValueError(f"{text!r} is no shard: there has to be at least one")
        if not 1 <= number <= count:
            raise ValueError(
                f"{text!r} is no shard: of {count} there are 1/{count} to {count}/{count}"
            )
        return cls(number, count)

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def __contains__(self, found: Sample | Complaint) -> bool:
        return shard_of(found, self.count) == self


def shard_of(found: Sample | Complaint, count: int) -> Shard:
    """Who judges a sample, whatever versions are installed. Lines that can't be are the first's."""
    if isinstance(found, Complaint) or found.source is None:
        return Shard(1, count)
    text = f"{found.kata}\n{found.source}".encode("utf-8", "surrogatepass")
    return Shard(int(hashlib.sha256(text).hexdigest(), 16) % count + 1, count)
