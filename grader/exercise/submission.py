"""A learner's file as text that somebody hands in, without a file."""

from __future__ import annotations

from dataclasses import dataclass

from grader.exercise.catalog import Kata


@dataclass(frozen=True)
class Submission(Kata):
    """A kata with what somebody wrote in the place of its file, which is neither read nor needed.

    Messages call the text by the name that the file would have. Text that no UTF-8 file can hold
    (half a surrogate pair) stays what Python can't read.
    """

    written: str

    @classmethod
    def of(cls, kata: Kata, written: str) -> Submission:
        return cls(kata.root, kata.track, kata.stem, written)

    def content(self) -> bytes:
        return self.written.encode("utf-8", "surrogatepass")
