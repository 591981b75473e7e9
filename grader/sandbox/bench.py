"""The bench: pytest's side of the sandbox. Starts workers, asks them, stops them, reads remains.

Does not import jax. One bench serves one process (pytest's, or one xdist worker's).
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import struct
import threading
import time

from grader.model import Accident, Device, Place, Source
from grader.sandbox import accidents, memory
from grader.sandbox.channel import Channel, TooLong
from grader.sandbox.isolation import Isolation
from grader.sandbox.launcher import BOOT_SECONDS, Launcher, SandboxError
from grader.sandbox.messages import (
    CONNECTION_CLOSED,
    MOST_TRACED,
    Answer,
    Closed,
    Hello,
    Question,
    Warm,
    place_in,
    understood,
)
from grader.sandbox.patience import Patience
from grader.sandbox.post import Post
from grader.tools import codec

DUMP_SECONDS = 0.3  # for a stuck worker to write down where it is
#: Posts where processes import learners' files.
STRANGERS = (Post.ATTEMPTING, Post.SPARE)
# A process may go on to the next file with so many bytes of memory filled. A new one has 90 to 190
# MB, and grows by up to 10 MB with each file that asks jax for something new.
MOST_USED = 384 << 20
MOST_ASKED = 3 << 29  # and with so many asked for: its limit is for the next file alone
SEND_SECONDS = 10.0  # for a process with a learner's file to read a question
ENDING_SECONDS = 1.0  # for a process that crashes to be gone


class Stopped(Exception):
    """Nobody waits for the attempt any more: `Bench.stop` was called."""


class Worker:
    """One worker process, from this side."""

    def __init__(self, launcher: Launcher, post: Post, backend: str) -> None:
        self._launcher, self._backend = launcher, backend
        self._stranger = post in STRANGERS
        ours, theirs = socket.socketpair()
        self._channel = Channel(ours)
        if self._stranger:
            self._channel = Channel(ours, MOST_TRACED, SEND_SECONDS)
        self._files = launcher.new_files()
        with theirs:
            self._process = launcher.start(theirs, self._files, post)
        self._kills = memory.kills()
        self._greeted = self._killed = False
        self._pending: list[Question] = []

    @property
    def alive(self) -> bool:
        """Whether it can be asked, as far as anybody knows."""
        return self._channel.open and not self._killed

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def busy(self) -> bool:
        """Whether it owes an answer."""
        return bool(self._pending)

    def ask(self, question: Question) -> None:
        """Send a question without waiting for its answer. Answers come in the order of asking."""
        self._greet()
        self._pending.append(question)
        with contextlib.suppress(Closed):  # `answer` will notice
            self._channel.send(codec.pack(question))

    def answer(self, seconds: float | None) -> Answer | Accident:
        """Wait for the answer to the oldest open question; stop the process if none comes.

        It has so many seconds, as `patience` counts them.
        """
        question = self._pending.pop(0)
        patience = Patience(self.pid, seconds)
        try:
            return understood(self._received(patience), question, self._stranger)
        except TimeoutError:
            return self._stop(question, seconds or 0.0, patience.kept_waiting)
        except (TooLong, TypeError, ValueError, struct.error, RecursionError):
            self.close()
            return accidents.garbled()
        except Closed:
            return self._bury(question)

    def _received(self, patience: Patience) -> bytes:
        """The next message. Raises Closed, TimeoutError."""
        for seconds in patience.waits():
            with contextlib.suppress(TimeoutError):
                return self._channel.receive(seconds)
        raise TimeoutError

    def _greet(self) -> None:
        """Wait until the process is ready, once. Raises SandboxError where it never is."""
        if self._greeted:
            return
        try:
            hello = codec.unpack(Hello, self._channel.receive(BOOT_SECONDS))
        except (Closed, TimeoutError):
            reason = self._files.complained() or self._launcher.remains()
            self.close()
            raise SandboxError(f"no process could be started to grade in\n{reason}") from None
        if hello.backend != self._backend:
            self.close()
            raise SandboxError(f"asked jax for the {self._backend}, got the {hello.backend}")
        self._greeted = True

    def _stop(self, question: Question, seconds: float, kept_waiting: bool) -> Accident:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGUSR1)
            time.sleep(DUMP_SECONDS)
        where, printed = self._place(question), self._files.printed()
        self.close()
        return accidents.stopped(seconds, where, printed, kept_waiting)

    def _bury(self, question: Question) -> Accident:
        ended = self._ends_by_itself()
        where, printed = self._place(question), self._files.printed()
        complaint = self._files.complained()
        code = self.close()
        if not ended or code == CONNECTION_CLOSED:
            return accidents.hung_up(where, printed)
        starved = memory.kills() > self._kills
        return accidents.died(code, where, printed, starved, complaint)

    def _ends_by_itself(self) -> bool:
        """Whether a process that has let go of its socket is ending. A crash takes a moment."""
        until = time.monotonic() + ENDING_SECONDS
        while not (ended := self._process.ended()) and time.monotonic() < until:
            time.sleep(0.005)
        return ended

    def _place(self, question: Question) -> Place | None:
        """The innermost line of the question's file in what faulthandler wrote."""
        pattern = re.compile(rf'File "{re.escape(question.source.file)}", line (\d{{1,7}})\b')
        found = pattern.search(self._files.complained())
        return place_in(question.source, int(found.group(1))) if found else None

    def kill(self) -> None:
        """End the process, whatever it is doing. Whoever waits for its answer takes note."""
        self._killed = True
        # Of one that is already ending, a kill changes neither exit code nor signal.
        # macOS refuses it of one that has ended and that nobody has waited for.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> int | None:
        """End the process and part with it; its exit code, or minus the ending signal.

        None where nobody saw it end.
        """
        if not self._channel.open:
            return 0
        self._channel.close()
        self.kill()
        code = self._process.wait()
        self._files.remove()
        return code


class Bench:
    """A worker process at each post where one is needed.

    At the attempting post, a file's content has a process to itself, which may have stood spare
    before. Without a `launcher`, which may be starting already, the bench makes its own, whose
    processes are isolated as `isolation` says.
    """

    def __init__(
        self,
        device: Device,
        launcher: Launcher | None = None,
        isolation: Isolation = Isolation.AUTO,
    ) -> None:
        self.device = device
        self._launcher = launcher or Launcher(device, isolation=isolation)
        self._workers: dict[Post, Worker] = {}
        self._attempted: Source | None = None
        self._stopped = threading.Event()

    def worker(self, post: Post) -> Worker:
        """The process at a post, a new one if there is none.

        Raises Stopped between `stop` and `go`, but at the trusted post; SandboxError.
        """
        self._unless_stopped(post)
        worker = self._workers.get(post)
        if worker is None or not worker.alive:
            self._drop(post)
            worker = Worker(self._launcher, post, self._backend(post))
            self._workers[post] = worker
            self._unless_stopped(post)  # else nobody would have killed this one
        return worker

    def attempt(self, source: Source) -> None:
        """From now on the attempting post is that of this file. Raises Stopped, SandboxError."""
        self._unless_stopped(Post.ATTEMPTING)
        if source != self._attempted:
            self._drop(Post.ATTEMPTING)
            self._attempted = source
            if spare := self._workers.pop(Post.SPARE, None):
                self._workers[Post.ATTEMPTING] = spare
                if isinstance(spare.answer(BOOT_SECONDS), Accident):
                    self._drop(Post.ATTEMPTING)
        self.worker(Post.ATTEMPTING)

    @property
    def pids(self) -> dict[Post, int]:
        """The processes that there are now."""
        return {post: worker.pid for post, worker in self._workers.items() if worker.alive}

    def dismiss(self) -> None:
        """End the process of the present file, whatever it waits for."""
        self._drop(Post.ATTEMPTING)

    def renew(self, most: int = MOST_USED) -> None:
        """End the processes that have more than so many bytes of memory filled.

        New ones take their places when they are needed. What one of them has not answered yet, a
        `Line` asks its successor.
        """
        for post, worker in list(self._workers.items()):
            large = memory.used(worker.pid) > most or memory.asked(worker.pid) > MOST_ASKED
            if worker.alive and large:
                self._drop(post)

    def keep_spare(self, warm: Warm) -> None:
        """Have a fresh process warm up, until the next content needs one."""
        if Post.SPARE not in self._workers:
            self.worker(Post.SPARE).ask(warm)

    def stop(self) -> None:
        """End the attempt under way, from another thread than the one that waits for it.

        Of the processes that judge, those go on that have nothing to do.
        """
        self._stopped.set()
        for post in (Post.ATTEMPTING, Post.RUNNING, Post.MESHED, Post.COMPILING):
            if (worker := self._workers.get(post)) and (worker.busy or post is Post.ATTEMPTING):
                worker.kill()

    def go(self) -> None:
        """Attempt again, after `stop`."""
        self._stopped.clear()

    def _unless_stopped(self, post: Post) -> None:
        if self._stopped.is_set() and post not in (Post.TRUSTED, Post.SPARE):
            raise Stopped

    def _backend(self, post: Post) -> str:
        return self.device.backend if post is Post.RUNNING else "cpu"

    def _drop(self, post: Post) -> None:
        if worker := self._workers.pop(post, None):
            worker.close()

    def close(self) -> None:
        """End every process and remove their files."""
        for worker in self._workers.values():
            if worker.alive:
                worker.kill()  # all at once: each takes a moment to end
        for post in list(self._workers):
            self._drop(post)
        self._launcher.close()
