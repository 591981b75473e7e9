"""What happens in a kernel's body, as far as it has to do with copies and products."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from grader.kernels.routes import Place, Way
from grader.kernels.scalars import Number


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """What a Ref refers to: an operand, by its position, or of an inner scope; and its name.

    `key` is the same on all chips.
    """

    operand: int | None
    name: str
    key: Hashable


@dataclass(frozen=True, slots=True)
class End:
    """One end of a copy: so many elements along each dimension of a buffer.

    `at` are the indices, as far as they are known, in words.
    """

    buffer: Buffer
    extent: tuple[int, ...]
    space: str
    size: int  # bytes
    at: str = ""

    @property
    def said(self) -> str:
        """What it is, by the name in the kernel."""
        return self.buffer.name + self.at


#: A buffer of semaphores, and which of them.
Semaphore = tuple[Buffer, tuple[Number, ...]]


@dataclass(frozen=True, slots=True)
class Started:
    """A copy is started; `remote`, to another chip, which `to` names where it is known.

    So do the `ways` there, () where it is not known. `own` is the sender's semaphore.
    """

    source: End
    target: End
    semaphore: Semaphore
    remote: bool
    ways: tuple[Way, ...] = ()
    to: Place | None = None
    own: Semaphore | None = None


@dataclass(frozen=True, slots=True)
class Waited:
    """So many bytes are waited for."""

    semaphore: Semaphore
    size: int


@dataclass(frozen=True, slots=True)
class Multiplied:
    """Matrices are multiplied, with so many operations."""

    operations: int


@dataclass(frozen=True, slots=True)
class Signalled:
    """A semaphore is signalled, `remote`: that of another chip."""

    semaphore: Semaphore
    count: int
    remote: bool
    to: Place | None = None


@dataclass(frozen=True, slots=True)
class Awaited:
    """So many signals are waited for."""

    semaphore: Semaphore
    count: int


Event = Started | Waited | Multiplied | Signalled | Awaited
