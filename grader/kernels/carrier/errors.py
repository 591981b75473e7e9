"""What can go wrong on the way: in the trace, or in the bytes."""

from __future__ import annotations


class NotCarried(Exception):
    """Something in a trace can't be carried to another process.

    Its text names the operation or the object in plain words. `place` is the line of the learner's
    file that it comes from; None where that is not known.
    """

    def __init__(self, message: str, place: int | None = None) -> None:
        super().__init__(message)
        self.place = place


class CarrierError(ValueError):
    """The bytes are not a carried trace: cut, changed, made by hand, or of another jax."""
