"""What the bench and its workers say to each other, and how it goes over a socket."""

from __future__ import annotations

import enum
import socket
import struct
from dataclasses import dataclass, field

from grader.model import Array, Case, Clues, Mode, Observation, Problem, Reference
from grader.tpu import OnChip
from grader.tpu.compiler import Estimate
from grader.tpu.motion import Followed

_LENGTH = struct.Struct("!Q")


class Task(enum.Enum):
    """What a worker is asked to do."""

    REFERENCE = "reference"  # evaluate the solution's spec
    INPUTS = "inputs"  # the same without evaluating it, which takes long at real sizes
    ATTEMPT = "attempt"  # trace and run the learner's launch function
    EXPLAIN = "explain"  # of the launch attempted last: what a wrong result is explained with
    PREDICT = "predict"  # lower and compile a launch function for TPUs, and simulate it
    WARM = "warm"  # run and compile a kernel of the grader's own: what is slow once comes early
    FOLLOW = "follow"  # trace a launch function for the first chip, and follow its blocks
    XLA = "xla"  # what XLA expects of the solution's spec on the first of the chips


@dataclass(frozen=True, slots=True)
class Ask:
    """One question. `inputs` and `keywords` are the reference's, for an attempt.

    `chips` are those to predict for, the one to lower for first; `events` is how many single
    transfers and stalls a predicted schedule keeps.
    """

    task: Task
    file: str  # the kata's or the solution's file
    name: str  # the kata's name
    case: Case
    mode: Mode
    inputs: tuple[Array, ...] = ()
    keywords: dict[str, int] = field(default_factory=dict)
    chips: tuple[str, ...] = ()
    events: int = 0


@dataclass(frozen=True, slots=True)
class Warmed:
    """The grader's own kernel has run, and has been compiled."""


@dataclass(frozen=True, slots=True)
class NoEstimate:
    """XLA's compiler could not be asked, or has no estimate."""


#: What a worker answers: each task in its own type, or the Problem that was raised on the way.
Answer = (
    Observation | Reference | Clues | OnChip | Followed | Estimate | NoEstimate | Warmed | Problem
)


@dataclass(frozen=True, slots=True)
class Hello:
    """The first thing a worker says, when it is ready."""

    backend: str
    jax: str


class Closed(Exception):
    """The other side is gone."""


def send(to: socket.socket, message: bytes) -> None:
    """Send one message. Raises Closed if nobody is there."""
    try:
        to.sendall(_LENGTH.pack(len(message)) + message)
    except OSError:
        raise Closed from None


def receive(sender: socket.socket) -> bytes:
    """Wait for one message. Raises Closed at the end of the stream, TimeoutError by settimeout."""
    (length,) = _LENGTH.unpack(_exactly(sender, _LENGTH.size))
    return _exactly(sender, length)


def _exactly(sender: socket.socket, count: int) -> bytes:
    received = bytearray()
    while len(received) < count:
        try:
            part = sender.recv(min(count - len(received), 1 << 20))
        except TimeoutError:
            raise
        except OSError:
            raise Closed from None
        if not part:
            raise Closed
        received += part
    return bytes(received)
