"""What happens in a kernel's body, as far as it has to do with copies and products."""

from __future__ import annotations

from dataclasses import dataclass

from grader.kernels.routes import Way
from grader.kernels.scalars import Number


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """What a Ref refers to: an operand, by its position, or of an inner scope."""

    operand: int | None = None


@dataclass(frozen=True, slots=True)
class End:
    """One end of a copy: so many elements along each dimension of a buffer."""

    buffer: Buffer
    extent: tuple[int, ...]
    space: str
    size: int  # bytes


#: A buffer of semaphores, and which of them.
Semaphore = tuple[Buffer, tuple[Number, ...]]


@dataclass(frozen=True, slots=True)
class Started:
    """A copy is started; `remote`, to another chip. Without `ways`, which way is not known."""

    source: End
    target: End
    semaphore: Semaphore
    remote: bool
    ways: tuple[Way, ...] = ()


@dataclass(frozen=True, slots=True)
class Waited:
    """So many bytes are waited for."""

    semaphore: Semaphore
    size: int


@dataclass(frozen=True, slots=True)
class Multiplied:
    """Matrices are multiplied, with so many operations."""

    operations: int


Event = Started | Waited | Multiplied
