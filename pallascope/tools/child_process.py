"""Starts Python child processes and exchanges messages with them.

A message is bytes, sent after their length; `codec` makes them from frozen values. The socket to
the parent is a child's standard input. A thread of the child reads it, so the child notices when
its parent ends, even by SIGKILL, and then ends too.

    Connection         the parent's end of a socket
    ParentConnection   the child's end
    ChildProcess       a child, its output, its answers, and how it ended
"""

from __future__ import annotations

import contextlib
import math
import os
import queue
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, NoReturn, Self, TypeVar

from pallascope.tools import codec

T = TypeVar("T")

_LENGTH = struct.Struct("!Q")
CHUNK = 1 << 20  # bytes
MAX_BYTES = 1 << 30  # bytes of one message; no case comes close
MAX_PRINTED = 1 << 20  # bytes of the end of what a child prints
ENDING_SECONDS = 30.0  # for a crashing child to end
POLL_MILLISECONDS = 1000  # between two checks whether the child's code has closed its socket
#: The exceptions of `codec.unpack` for a message that isn't of the expected type.
BROKEN = (TypeError, ValueError, struct.error, RecursionError)


class ConnectionClosed(Exception):
    """The other side has ended, or has closed its end."""


class MessageTooLong(ConnectionClosed):
    """The other side sends more than the limit; nothing more can be read from it."""


class ChildEnded(ConnectionClosed):
    """A child ended before it answered. `code` is its exit code, or minus the signal's number.

    `last_line` is the last line that it printed, or its exit code.
    """

    def __init__(self, reason: str, code: int, printed: str) -> None:
        self.code, self.printed = code, printed
        lines = printed.strip().splitlines()
        self.last_line = lines[-1] if lines else f"exit code {code}"
        super().__init__(": ".join([f"the process {reason}", *lines[-1:]]))


class ChildTimeout(TimeoutError):
    """A child didn't answer in time, and was killed."""

    def __init__(self, seconds: float, printed: str) -> None:
        self.printed = printed
        super().__init__(f"no answer within {seconds:g} s")


def framed(message: bytes) -> bytes:
    """A message with its length before it."""
    return _LENGTH.pack(len(message)) + message


def send(connected: socket.socket, message: bytes) -> None:
    """Send one message. Raises ConnectionClosed."""
    try:
        connected.sendall(framed(message))
    except OSError:
        raise ConnectionClosed from None


def receive(connected: socket.socket) -> bytes:
    """Wait for one message. Raises ConnectionClosed."""
    (length,) = _LENGTH.unpack(_exactly(connected, _LENGTH.size))
    return _exactly(connected, length)


def _exactly(connected: socket.socket, count: int) -> bytes:
    received = bytearray()
    while len(received) < count:
        try:
            part = connected.recv(min(count - len(received), CHUNK))
        except OSError:
            raise ConnectionClosed from None
        if not part:
            raise ConnectionClosed
        received += part
    return bytes(received)


class Connection:
    """The parent's end of a socket; it never waits for the child to read or to send anything.

    While it sends, it receives, so that neither side waits for the other to read first. One thread
    may use it at a time. `max_bytes` limits a message from the child.
    """

    def __init__(self, connected: socket.socket, max_bytes: int = MAX_BYTES) -> None:
        connected.setblocking(False)
        self.socket = connected
        self._max_bytes = max_bytes
        self._received, self._unsent = bytearray(), bytearray()

    @property
    def open(self) -> bool:
        return self.socket.fileno() >= 0

    def send(self, message: bytes, seconds: float | None = None) -> None:
        """Send one message. `receive` sends the part that the child hasn't read after `seconds`.

        If the child has ended, `receive` raises ConnectionClosed.
        """
        self._unsent += framed(message)
        with contextlib.suppress(ConnectionClosed, TimeoutError):
            self._exchange(lambda: not self._unsent, seconds)

    def send_descriptor(self, descriptor: int) -> None:
        """Send a file descriptor. Raises OSError if the child has ended."""
        socket.send_fds(self.socket, [b"D"], [descriptor])

    def receive(self, seconds: float | None) -> bytes:
        """Wait for one message. Raises ConnectionClosed, MessageTooLong, TimeoutError."""
        self._exchange(self._has_message, seconds)
        (length,) = _LENGTH.unpack_from(self._received)
        end = _LENGTH.size + length
        message = bytes(self._received[_LENGTH.size : end])
        del self._received[:end]
        return message

    def close(self) -> None:
        self.socket.close()

    def _has_message(self) -> bool:
        if len(self._received) < _LENGTH.size:
            return False
        (length,) = _LENGTH.unpack_from(self._received)
        if length > self._max_bytes:
            raise MessageTooLong
        return len(self._received) >= _LENGTH.size + length

    def _exchange(self, done: Callable[[], bool], seconds: float | None) -> None:
        """Send and receive until `done`. Raises ConnectionClosed, TimeoutError."""
        if not self.open:
            raise ConnectionClosed
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        while not done():
            left = max(deadline - time.monotonic(), 0.0)
            if not self._transfer(left) or (left == 0 and not done()):
                raise TimeoutError

    def _transfer(self, seconds: float) -> bool:
        """Send and receive as much as the socket allows; False if nothing after `seconds`."""
        full = len(self._received) > self._max_bytes
        wanted = (0 if full else select.POLLIN) | (select.POLLOUT if self._unsent else 0)
        poll = select.poll()  # unlike select, it works with any number of open files
        poll.register(self.socket, wanted)
        ready = poll.poll(None if math.isinf(seconds) else seconds * 1000)
        events = sum(event for _, event in ready)
        ended = events & (select.POLLHUP | select.POLLERR)
        if self._unsent and (ended or events & select.POLLOUT):
            self._send_part()
        if ended or events & select.POLLIN:
            self._receive_part()
        return bool(ready)

    def _send_part(self) -> None:
        try:
            del self._unsent[: self.socket.send(self._unsent[:CHUNK])]
        except BlockingIOError:
            return
        except OSError:
            self._unsent.clear()  # an answer may still have come

    def _receive_part(self) -> None:
        try:
            part = self.socket.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            raise ConnectionClosed from None
        if not part:
            raise ConnectionClosed
        self._received += part


def receive_descriptor(connected: socket.socket) -> int:
    """The file descriptor that `Connection.send_descriptor` has sent. Raises ConnectionClosed."""
    _, descriptors, _, _ = socket.recv_fds(connected, 1, 1)
    if not descriptors:
        raise ConnectionClosed
    return descriptors[0]


def socket_of_child() -> socket.socket:
    """The socket to the parent, from the child's standard input, which becomes empty."""
    connected = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return connected


def end_child() -> NoReturn:
    """End this child, which `ChildProcess.running` started, and remove its temporary files."""
    shutil.rmtree(os.environ["TMPDIR"], ignore_errors=True)
    os._exit(0)  # doesn't wait for the threads of XLA and libtpu


class ParentConnection:
    """The child's end of a socket. A thread calls `at_end` when the parent has ended.

    The default `at_end` is for children that `ChildProcess.running` starts.
    """

    def __init__(
        self,
        connected: socket.socket | None = None,
        at_end: Callable[[], object] = end_child,
    ) -> None:
        self._socket, self._at_end = connected or socket_of_child(), at_end
        self._messages = queue.SimpleQueue[bytes]()
        threading.Thread(target=self._listen, daemon=True).start()

    def send(self, message: bytes) -> None:
        """Send one message. Raises ConnectionClosed if `at_end` returns."""
        try:
            send(self._socket, message)
        except ConnectionClosed:
            self._at_end()
            raise

    def receive(self) -> bytes:
        """Wait for one message. If the parent has ended, it never returns: see `at_end`."""
        return self._messages.get()

    def _listen(self) -> None:
        poll = select.poll()
        poll.register(self._socket.fileno(), select.POLLIN)
        with contextlib.suppress(ConnectionClosed):
            while True:
                # A waiting call keeps the socket open even after its descriptor was closed.
                while not poll.poll(POLL_MILLISECONDS):
                    pass
                self._messages.put(receive(self._socket))
        self._at_end()


_ROOT = Path(__file__).parents[2]
#: Adds to the end of the path, only for modules that can't be imported otherwise.
_CODE = """
import sys
sys.path += [each for each in {path!r} if each not in sys.path]
from {module} import main
main()
"""


def python_command(module: str) -> list[str]:
    """The command that calls `main` of a module in a new process with this one's packages."""
    code = _CODE.format(path=[str(_ROOT), *sys.path], module=module)
    return [sys.executable, "-P", "-c", code]


class ChildProcess:
    """A child process with its process group, which ends with this object or this process.

    It runs in the folder `cwd`, and prints to the file `output`, or to this process's output.
    The folder `scratch` is removed with it. Once the connection is closed, it has `grace` seconds
    to end by itself.
    """

    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str] | None = None,
        *,
        cwd: Path | None = None,
        output: Path | None = None,
        scratch: Path | None = None,
        grace: float = 0.0,
    ) -> None:
        ours, theirs = socket.socketpair()
        self._grace = grace
        self._printed = ""
        # It stays open: a child may remove its folder at its end, before this process reads it.
        self._output = open(output, "a+b") if output else None  # noqa: SIM115
        with theirs, open(output or os.devnull, "ab") as file:
            self._process = subprocess.Popen(
                command,
                env=environ,
                cwd=cwd,
                stdin=theirs.fileno(),
                stdout=file if output else None,
                stderr=file if output else None,
                start_new_session=True,  # Ctrl-C is for the parent, which then ends the child
            )
        self.connection = Connection(ours)
        self._end = weakref.finalize(self, _end, self._process, ours, scratch, os.getpid())

    @classmethod
    def running(cls, module: str, environ: Mapping[str, str], before: Sequence[str] = ()) -> Self:
        """A child that calls a module's `main`; it has a folder for its output and temporary files.

        `before` precedes its command.
        """
        scratch = Path(tempfile.mkdtemp(prefix="pallas-katas-child-"))
        return cls(
            [*before, *python_command(module)],
            {**environ, "TMPDIR": str(scratch)},
            output=scratch / "printed",
            scratch=scratch,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, value: Any) -> None:
        """Send a value that `codec` can pack. After the child's end, `answer` raises ChildEnded."""
        self.connection.send(codec.pack(value))

    def answer(self, kind: type[T] | UnionType, seconds: float | None = None) -> T:
        """Wait for a value of this type.

        On failure the child is ended. Raises ChildTimeout, and ChildEnded if the child has ended or
        sends something else.
        """
        try:
            return codec.unpack(kind, self.connection.receive(seconds))
        except TimeoutError:
            self.close()
            raise ChildTimeout(seconds or 0.0, self._printed) from None
        except (MessageTooLong, *BROKEN) as error:
            code = self.close()
            reason = f"sent a broken message ({type(error).__name__})"
            raise ChildEnded(reason, code, self._printed) from error
        except ConnectionClosed:
            code = self.close(ENDING_SECONDS)
            raise ChildEnded(f"ended with {_ending(code)}", code, self._printed) from None

    def printed(self) -> str:
        """The end of the child's output in its file."""
        if self._output is None or self._output.closed:
            return self._printed
        file = self._output.fileno()
        start = max(0, os.fstat(file).st_size - MAX_PRINTED)
        return os.pread(file, MAX_PRINTED, start).decode(errors="replace")

    def close(self, seconds: float | None = None) -> int:
        """End the child; its exit code, or minus the number of the signal that ended it.

        It is killed if it hasn't ended after `seconds`, by default `grace`.
        """
        self.connection.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(self._grace if seconds is None else seconds)
        if self._end.alive:
            self._printed = self.printed()
            self._end()
            if self._output:
                self._output.close()
        return self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _ending(code: int) -> str:
    try:
        return f"exit code {code}" if code >= 0 else signal.Signals(-code).name
    except ValueError:  # most of the real-time signals have no name
        return f"signal {-code}"


def _end(
    process: subprocess.Popen[bytes], connected: socket.socket, scratch: Path | None, owner: int
) -> None:
    """End a child, unless this process is a fork of its parent."""
    if os.getpid() != owner:
        return
    connected.close()
    # macOS refuses this for a process that has ended and wasn't waited for.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if scratch:
        shutil.rmtree(scratch, ignore_errors=True)
