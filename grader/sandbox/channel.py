"""The bench's end of a socket to a worker: neither side ever waits for the other to read first."""

from __future__ import annotations

import contextlib
import select
import socket
import time

from grader.sandbox.messages import Closed, announced, framed, taken

CHUNK = 1 << 20  # bytes
MOST = 1 << 30  # bytes of one message; no case comes near


class TooLong(Closed):
    """The other side sends more than is taken: nothing can be read from it any more."""


class Channel:
    """Sends and receives whole messages. While it sends, it takes in what arrives.

    `most` is how many bytes one message from the other side may have, `patience` how many seconds
    `send` waits for the other side to read. After that, `receive` sends the rest while it waits, so
    one thread has to do both. With None, `send` waits for any number of seconds, and one thread may
    send while another receives.
    """

    def __init__(
        self, connected: socket.socket, most: int = MOST, patience: float | None = None
    ) -> None:
        connected.setblocking(False)
        self._socket = connected
        self._most, self._patience = most, patience
        self._received = bytearray()
        self._unsent = memoryview(b"")

    @property
    def open(self) -> bool:
        return self._socket.fileno() >= 0

    def send(self, message: bytes) -> None:
        """Send one message, however large. Raises Closed if nobody is there."""
        self._unsent = memoryview(bytes(self._unsent) + framed(message))
        until = _deadline(self._patience)
        while self._unsent:
            left = _left(until)
            readable, writable = self._ready(left, sending=True)
            if left == 0 or not (readable or writable):
                return  # out of patience
            if readable:
                self._take_in()
            if writable:
                self._give()

    def receive(self, seconds: float | None) -> bytes:
        """Wait for one message. Raises Closed at the end of the stream, TimeoutError.

        Raises TooLong where the message that comes has more than `most` bytes.
        """
        until, left = _deadline(seconds), None
        while (message := taken(self._received)) is None:
            if left == 0:
                raise TimeoutError  # also where bytes go on coming one by one
            if announced(self._received) > self._most:
                raise TooLong
            left = _left(until)
            readable, writable = self._ready(left, sending=self._patience is not None)
            if not (readable or writable):
                raise TimeoutError
            if writable:
                with contextlib.suppress(Closed):  # an answer may have come all the same
                    self._give()
            if readable:
                self._take_in()
        return message

    def close(self) -> None:
        self._socket.close()

    def _ready(self, seconds: float | None, sending: bool) -> tuple[bool, bool]:
        """Wait until there is something to read or, if `sending`, room for unsent bytes."""
        full = len(self._received) > self._most  # more than the message that is asked for
        wanted = (0 if full else select.POLLIN) | (
            select.POLLOUT if sending and self._unsent else 0
        )
        poll = select.poll()  # unlike select, for any number of open files
        poll.register(self._socket, wanted)
        milliseconds = None if seconds is None else seconds * 1000
        events = sum(event for _, event in poll.poll(milliseconds))
        ended = select.POLLHUP | select.POLLERR
        return bool(events & (select.POLLIN | ended)), bool(events & (select.POLLOUT | ended))

    def _give(self) -> None:
        try:
            self._unsent = self._unsent[self._socket.send(self._unsent[:CHUNK]) :]
        except BlockingIOError:
            return
        except OSError:
            self._unsent = memoryview(b"")
            raise Closed from None

    def _take_in(self) -> None:
        try:
            part = self._socket.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            raise Closed from None
        if not part:
            raise Closed
        self._received += part


def _deadline(seconds: float | None) -> float | None:
    return None if seconds is None else time.monotonic() + seconds


def _left(until: float | None) -> float | None:
    return None if until is None else max(until - time.monotonic(), 0.0)
