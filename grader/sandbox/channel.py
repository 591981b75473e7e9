"""The bench's end of a socket to a worker: neither side ever waits for the other to read first."""

from __future__ import annotations

import select
import socket
import time

from grader.sandbox.messages import Closed, framed, taken

CHUNK = 1 << 20  # bytes
MOST = 1 << 30  # bytes of one message; no case comes near


class Channel:
    """Sends and receives whole messages. While it sends, it takes in what arrives."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        self._socket = connected
        self._received = bytearray()

    @property
    def open(self) -> bool:
        return self._socket.fileno() >= 0

    def send(self, message: bytes) -> None:
        """Send one message, however large. Raises Closed if nobody is there."""
        rest = memoryview(framed(message))
        while rest:
            readable, writable = self._ready(None, writing=True)
            if readable:
                self._take_in()
            if writable:
                try:
                    rest = rest[self._socket.send(rest[:CHUNK]) :]
                except BlockingIOError:
                    continue
                except OSError:
                    raise Closed from None

    def receive(self, seconds: float | None) -> bytes:
        """Wait for one message. Raises Closed at the end of the stream, TimeoutError."""
        until = None if seconds is None else time.monotonic() + seconds
        while (message := taken(self._received)) is None:
            left = None if until is None else max(until - time.monotonic(), 0.0)
            readable, _ = self._ready(left)
            if not readable:
                raise TimeoutError
            self._take_in()
        return message

    def close(self) -> None:
        self._socket.close()

    def _ready(self, seconds: float | None, writing: bool = False) -> tuple[bool, bool]:
        poll = select.poll()  # unlike select, for any number of open files
        poll.register(self._socket, select.POLLIN | (select.POLLOUT if writing else 0))
        milliseconds = None if seconds is None else seconds * 1000
        events = sum(event for _, event in poll.poll(milliseconds))
        ended = select.POLLHUP | select.POLLERR
        return bool(events & (select.POLLIN | ended)), bool(events & (select.POLLOUT | ended))

    def _take_in(self) -> None:
        try:
            part = self._socket.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            raise Closed from None
        if not part or len(self._received) + len(part) > MOST:
            raise Closed
        self._received += part
