"""Whole messages between the bench and a worker, of any size, without waiting for each other."""

from __future__ import annotations

import contextlib
import socket
import threading

import pytest

from grader.sandbox import messages
from grader.sandbox.messages import (
    Closed,
    framed,
    receive,
    send,
)
from grader.sandbox.worker_pool import Channel, TooLong
from pallascope.kernels.serialization import encoding

LARGE = b"x" * (8 << 20)


def pair() -> tuple[Channel, socket.socket]:
    ours, theirs = socket.socketpair()
    return Channel(ours), theirs


def test_messages_arrive_whole_and_in_order() -> None:
    channel, theirs = pair()
    with theirs:
        for message in (b"", b"one", b"two"):
            channel.send(message)
        assert [receive(theirs) for _ in range(3)] == [b"", b"one", b"two"]
        theirs.sendall(framed(b"three") + framed(b"four")[:5])
        assert channel.receive(1) == b"three"
        with pytest.raises(TimeoutError):
            channel.receive(0.01)
        theirs.sendall(framed(b"four")[5:])
        assert channel.receive(1) == b"four"


def test_large_messages_in_both_directions_do_not_wait_for_each_other() -> None:
    channel, theirs = pair()
    with theirs:
        answering = threading.Thread(target=lambda: (send(theirs, LARGE), receive(theirs)))
        answering.start()
        channel.send(LARGE)
        assert channel.receive(10) == LARGE
        answering.join(10)
        assert not answering.is_alive()


def test_one_thread_sends_while_another_receives() -> None:
    """A worker of `kata grade` listens for the next job all the time."""
    channel, theirs = pair()
    with theirs:
        listening = threading.Thread(target=lambda: channel.receive(None))
        listening.start()
        job = framed(bytes(500))
        for byte in job[:200]:
            sending = threading.Thread(target=lambda: channel.send(LARGE[: 1 << 20]))
            sending.start()
            theirs.sendall(bytes([byte]))  # so that the other thread looks up
            assert receive(theirs) == LARGE[: 1 << 20]
            sending.join(10)
        theirs.setblocking(False)
        with pytest.raises(BlockingIOError):
            theirs.recv(1)  # nothing was sent twice
        theirs.setblocking(True)
        theirs.sendall(job[200:])
        listening.join(10)
        assert not listening.is_alive()


def test_nobody_is_there() -> None:
    channel, theirs = pair()
    theirs.close()
    with pytest.raises(Closed):
        channel.receive(1)
    with pytest.raises(Closed):
        channel.send(LARGE)


def test_half_a_message_is_none() -> None:
    channel, theirs = pair()
    theirs.sendall(framed(b"message")[:-1])
    theirs.close()
    with pytest.raises(Closed):
        channel.receive(1)


def test_a_length_that_no_message_has_does_not_fill_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("grader.sandbox.worker_pool.MOST", 1 << 20)
    channel, theirs = pair()
    with theirs:
        theirs.sendall((1 << 60).to_bytes(8, "big"))
        threading.Thread(target=lambda: _flood(theirs), daemon=True).start()
        with pytest.raises(Closed):
            channel.receive(10)


def _flood(theirs: socket.socket) -> None:
    with contextlib.suppress(OSError):
        theirs.sendall(LARGE)


def test_a_trace_that_may_be_carried_may_be_answered() -> None:
    """pytest's process has no jax, and so cannot read the carrier's limit from the carrier."""
    assert messages.MOST_TRACED == messages.MOST_TOLD + encoding.MOST_BYTES


def test_of_a_message_that_is_too_long_nothing_is_kept() -> None:
    ours, theirs = socket.socketpair()
    channel = Channel(ours, most=1 << 20)
    with theirs:
        theirs.sendall((1 << 30).to_bytes(8, "big"))
        threading.Thread(target=lambda: _flood(theirs), daemon=True).start()
        with pytest.raises(TooLong):
            channel.receive(10)
        with contextlib.suppress(TooLong):
            channel.send(b"while more arrives")
        assert len(channel._received) < 3 << 20
    channel.close()


def test_a_side_that_reads_nothing_is_not_waited_for() -> None:
    ours, theirs = socket.socketpair()
    channel = Channel(ours, patience=0.1)
    with theirs:
        channel.send(LARGE)
        with pytest.raises(TimeoutError):
            channel.receive(0.1)
        reading = threading.Thread(target=lambda: send(theirs, receive(theirs)), daemon=True)
        reading.start()
        assert channel.receive(10) == LARGE  # the rest is sent meanwhile


def test_bytes_that_come_one_by_one_do_not_put_the_end_off() -> None:
    channel, theirs = pair()
    ended = threading.Event()

    def trickle() -> None:
        with contextlib.suppress(OSError):
            theirs.sendall((1 << 20).to_bytes(8, "big"))
            while not ended.is_set():
                theirs.sendall(b"x")

    thread = threading.Thread(target=trickle, daemon=True)
    with theirs:
        thread.start()
        with pytest.raises(TimeoutError):
            channel.receive(0.1)
        ended.set()
        thread.join(10)
    channel.close()
