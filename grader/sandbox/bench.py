"""The bench: pytest's side of the sandbox. Starts workers, asks them, stops them, reads remains.

Does not import jax. One bench serves one process (pytest's, or one xdist worker's).
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
import os
import re
import signal
import socket
import threading
import time
from pathlib import Path

from grader.model import Accident, Device, Place
from grader.sandbox import accidents, memory
from grader.sandbox.launcher import BOOT_SECONDS, Launcher, SandboxError
from grader.sandbox.messages import Answer, Ask, Closed, Hello, receive, send
from grader.tools import codec

DUMP_SECONDS = 0.3  # for a stuck worker to write down where it is
ENDING_SECONDS = 1.0  # for a process that crashes to be gone


class Post(enum.Enum):
    """What a worker is there for."""

    TRUSTED = "trusted"  # imports solutions
    ATTEMPTING = "attempting"  # imports the learner's present kata
    SPARE = "spare"  # is warm, and has imported none yet


class Stopped(Exception):
    """Nobody waits for the attempt any more: `Bench.stop` was called."""


class Worker:
    """One worker process, from this side."""

    def __init__(self, launcher: Launcher, backend: str) -> None:
        self._launcher, self._backend = launcher, backend
        self._socket, theirs = socket.socketpair()
        self._files = launcher.new_files()
        with theirs:
            self._process = launcher.start(theirs, self._files)
        self._kills = memory.kills()
        self._greeted = False
        self._pending: list[Ask] = []

    @property
    def alive(self) -> bool:
        return self._socket.fileno() >= 0

    def ask(self, question: Ask) -> None:
        """Send a question without waiting for its answer. Answers come in the order of asking."""
        self._greet()
        self._pending.append(question)
        with contextlib.suppress(Closed):  # `answer` will notice
            send(self._socket, codec.pack(question))

    def answer(self, seconds: float | None) -> Answer | Accident:
        """Wait for the answer to the oldest open question; stop the process if none comes."""
        question = self._pending.pop(0)
        self._socket.settimeout(seconds)
        try:
            return codec.unpack(Answer, receive(self._socket))
        except TimeoutError:
            return self._stop(question, seconds or 0.0)
        except Closed:
            return self._bury(question)

    def _greet(self) -> None:
        """Wait until the process is ready, once. Raises SandboxError where it never is."""
        if self._greeted:
            return
        self._socket.settimeout(BOOT_SECONDS)
        try:
            hello = codec.unpack(Hello, receive(self._socket))
        except (Closed, TimeoutError):
            reason = self._files.complained() or self._launcher.remains()
            self.close()
            raise SandboxError(f"no process could be started to grade in\n{reason}") from None
        if hello.backend != self._backend:
            self.close()
            raise SandboxError(f"asked jax for the {self._backend}, got the {hello.backend}")
        self._greeted = True

    def _stop(self, question: Ask, seconds: float) -> Accident:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGUSR1)
            time.sleep(DUMP_SECONDS)
        where, printed = self._place(question), self._files.printed()
        self.close()
        return accidents.stopped(seconds, where, printed)

    def _bury(self, question: Ask) -> Accident:
        ended = self._ends_by_itself()
        where, printed = self._place(question), self._files.printed()
        code = self.close()
        if not ended:
            return accidents.hung_up(where, printed)
        starved = memory.kills() > self._kills
        return accidents.died(code, where, printed, starved)

    def _ends_by_itself(self) -> bool:
        """Whether a process that has let go of its socket is ending. A crash takes a moment."""
        until = time.monotonic() + ENDING_SECONDS
        while not (ended := self._process.ended()) and time.monotonic() < until:
            time.sleep(0.005)
        return ended

    def _place(self, question: Ask) -> Place | None:
        """The innermost line of the kata's file in what faulthandler wrote."""
        pattern = re.compile(rf'File "{re.escape(question.file)}", line (\d+)')
        found = pattern.search(self._files.complained())
        if not found:
            return None
        number = int(found.group(1))
        lines = Path(question.file).read_text(encoding="utf-8", errors="replace").splitlines()
        return Place(number, lines[number - 1].strip() if number <= len(lines) else "")

    def kill(self) -> None:
        """End the process, whatever it is doing. Whoever waits for its answer takes note."""
        # Of one that is already ending, a kill changes neither exit code nor signal.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> int | None:
        """End the process and part with it; its exit code, or minus the ending signal.

        None where nobody saw it end.
        """
        if not self.alive:
            return 0
        self._socket.close()
        self.kill()
        code = self._process.wait()
        self._files.remove()
        return code


class Bench:
    """Two workers at a time: one trusted, for the solutions; one for the learner's present kata.

    A third, for the next content, is warm where `keep_spare` is called. Without a `launcher`, which
    may be starting already, the bench makes its own.
    """

    def __init__(self, device: Device, launcher: Launcher | None = None) -> None:
        self.device = device
        self._launcher = launcher or Launcher(device)
        self._workers: dict[Post, Worker] = {}
        self._attempting: tuple[Path, str] | None = None
        self._stopped = threading.Event()

    def trusted(self) -> Worker:
        """The worker that evaluates solutions' specs."""
        return self._worker(Post.TRUSTED)

    def attempting(self, file: Path) -> Worker:
        """The worker for a learner's file: a fresh process whenever file or content changes.

        Raises Stopped between `stop` and `go`.
        """
        if self._stopped.is_set():
            raise Stopped
        content = (file, hashlib.sha256(file.read_bytes()).hexdigest())
        if content != self._attempting:
            self._drop(Post.ATTEMPTING)
            self._attempting = content
            if spare := self._workers.pop(Post.SPARE, None):
                self._workers[Post.ATTEMPTING] = spare
                if isinstance(spare.answer(BOOT_SECONDS), Accident):
                    self._drop(Post.ATTEMPTING)
        worker = self._worker(Post.ATTEMPTING)
        if self._stopped.is_set():  # since the first look: then nobody has killed this one
            raise Stopped
        return worker

    def keep_spare(self, warm: Ask) -> None:
        """Have a fresh process do `warm`, a Task.WARM, until the next content needs one."""
        if Post.SPARE not in self._workers:
            self._worker(Post.SPARE).ask(warm)

    def stop(self) -> None:
        """End the attempt under way, from another thread than the one that waits for it."""
        self._stopped.set()
        if worker := self._workers.get(Post.ATTEMPTING):
            worker.kill()

    def go(self) -> None:
        """Attempt again, after `stop`."""
        self._stopped.clear()

    def _worker(self, post: Post) -> Worker:
        worker = self._workers.get(post)
        if worker is None or not worker.alive:
            worker = Worker(self._launcher, self.device.backend)
            self._workers[post] = worker
        return worker

    def _drop(self, post: Post) -> None:
        if worker := self._workers.pop(post, None):
            worker.close()

    def clear(self) -> None:
        """End every worker; whatever is asked next is asked of a new one."""
        for post in list(self._workers):
            self._drop(post)
        self._attempting = None

    def close(self) -> None:
        """End every process and remove their files."""
        self.clear()
        self._launcher.close()
