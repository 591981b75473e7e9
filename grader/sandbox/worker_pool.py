"""Starts workers, sends them questions, stops them, and explains how they died.

This is pytest's side of the sandbox, and doesn't import jax. One pool serves one process: pytest's,
or one of xdist's workers.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import threading
import time

from grader.sandbox import process_limits
from grader.sandbox.isolation import Isolation
from grader.sandbox.launcher import BOOT_SECONDS, Launcher, SandboxError
from grader.sandbox.messages import (
    CONNECTION_CLOSED,
    MOST_TRACED,
    Answer,
    Hello,
    Question,
    WorkerRole,
    place_in,
    understood,
)
from grader.sandbox.time_limits import Patience
from grader.verdict import Device
from pallascope.model import Accident, SourceFile, SourceLine
from pallascope.runs.questions import Warm
from pallascope.tools import codec
from pallascope.tools.child_process import (
    BROKEN,
    MAX_BYTES,
    Connection,
    ConnectionClosed,
    MessageTooLong,
)
from pallascope.tools.text import shortened
from pallascope.tpu.libtpu_errors import fatal_message

#: Signals by which a process dies, and the usual reason.
_REASONS: dict[int, str] = {
    signal.SIGSEGV: "Usual reasons: native code called with a bad address, or very deep recursion.",
    signal.SIGBUS: "Usual reasons: native code called with a bad address, or a full disk.",
    signal.SIGABRT: "A native library gave up: it met something that it does not handle.",
}
#: The number of lines of stderr that a message shows.
LAST_LINES = 8
#: Signals that a process causes itself; others come from another process.
_FAULTS = (*_REASONS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGSYS, signal.SIGXFSZ)
_OTHERWISE = "Usual reasons: native code called with a bad address, or memory that ran out."


def stopped(
    seconds: float, where: SourceLine | None, printed: str, kept_waiting: bool = False
) -> Accident:
    """A process that gave no answer within `seconds`.

    `kept_waiting`: the machine may have kept it from answering in time.
    """
    message = (
        f"No answer after {seconds:g} s, so the process was stopped. "
        "A second try gave no answer either.\n"
        "Usual reasons: a loop whose condition never changes; a DMA or semaphore wait that nothing "
        "ever signals (a wait without a start); or work element by element or column by column: "
        "Python unrolls loops, and in each iteration a load or store takes the interpreter as "
        "long as one of a whole block. Compute on whole blocks, x_ref[...]."
    )
    return Accident(f"no answer after {seconds:g} s", message, where, printed, True, kept_waiting)


def calls_without_end(calls: int) -> Accident:
    """A test that doesn't stop calling the launch."""
    message = (
        f"The test has called the launch {calls} times, so it was stopped.\n"
        "Usual reason: a loop around the launch that never ends, or one over far too many sizes."
    )
    return Accident(f"calls the launch at least {calls} times", message, stuck=True)


def garbled() -> Accident:
    """A process with an invalid answer, which only code that writes to its socket can cause."""
    message = (
        "The process sent an answer that can't be read, so it was stopped.\n"
        "Something wrote to a file descriptor that is not its own."
    )
    return Accident("gave no readable answer", message)


def hung_up(where: SourceLine | None, printed: str) -> Accident:
    """A process that closed its connection to the grader."""
    message = (
        "The process closed its connection to the grader before the kernel was graded, so it was "
        "stopped.\nUsual reason: code that closes files that it hasn't opened."
    )
    return Accident("closed its connection to the grader", message, where, printed)


def died(
    code: int | None,
    where: SourceLine | None,
    printed: str,
    starved: bool = False,
    complaint: str = "",
) -> Accident:
    """A process that ended with this exit code; a negative code is minus the signal that ended it.

    None: the code is unknown. `starved`: meanwhile the operating system killed some process for
    lack of memory. `complaint` is the process's stderr.
    """
    if code is None:
        message = (
            "The process ended before the kernel was graded, and so did the one that had started "
            "it.\nUsual reason: a signal that a kata sent to other processes."
        )
        phrase = "ended, and its parent process too"
        return Accident(phrase, message, where, printed, crashed=True, killed=True)
    if code >= 0:
        message = (
            f"The process ended with exit code {code} before the kernel was graded.\n"
            f"{_end_of_stderr(complaint)}"
        )
        return Accident(f"left the process (exit code {code})", message, where, printed)
    if -code == signal.SIGKILL:
        return _killed(where, printed, starved)
    name = _name(-code)
    message = (
        f"The process crashed with {name} before the kernel was graded.\n"
        f"{_REASONS.get(-code, _OTHERWISE)}"
    )
    said = fatal_message(complaint)
    if said:
        message += f"\nIt said: {said}"
    return Accident(
        f"crashed ({name})",
        message,
        where,
        printed,
        crashed=True,
        last_words=said,
        killed=-code not in _FAULTS,
    )


def _end_of_stderr(complaint: str) -> str:
    """Why a process ended with an exit code, as far as its stderr shows."""
    if not complaint:
        return (
            "It wrote nothing to stderr.\n"
            "Usual reason: a call of os._exit, which a kata never needs."
        )
    last = complaint.splitlines()[-LAST_LINES:]
    return "\n".join(["The end of its stderr:", *(f"  {shortened(each, 500)}" for each in last)])


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most of the real-time signals have no name
        return f"signal {number}"


def _killed(where: SourceLine | None, printed: str, starved: bool) -> Accident:
    """A process that was killed. A process doesn't cause SIGKILL, and the grader didn't send it."""
    if starved:
        message = (
            "The machine ran out of memory, and its operating system killed the process before the "
            "kernel was graded.\nUsual reasons: arrays that are far larger than the case's, or "
            "other programs that need the memory."
        )
        phrase = "killed: out of memory"
        return Accident(phrase, message, where, printed, crashed=True, killed=True)
    message = (
        "The process was killed with SIGKILL before the kernel was graded, not by the grader.\n"
        "Usual reasons: code that kills its own process, a person, or a limit of the machine."
    )
    return Accident("killed (SIGKILL)", message, where, printed, crashed=True, killed=True)


DUMP_SECONDS = 0.3  # for a stuck worker to write its stack to its stderr
#: Roles of processes that import learners' files.
STRANGERS = (WorkerRole.ATTEMPTING, WorkerRole.SPARE)
# A process may go on to the next file with this many bytes of resident memory. A new process has 90
# to 190 MB, and grows by up to 10 MB with each file that needs something new of jax.
MOST_USED = 384 << 20
MOST_ASKED = 3 << 29  # requested bytes: the next file should have the whole limit to itself
SEND_SECONDS = 10.0  # for a process with a learner's file to read a question
ENDING_SECONDS = 1.0  # for a crashing process to end


class Stopped(Exception):
    """The attempt was stopped by a call of `WorkerPool.stop`."""


class Worker:
    """This side's handle of a worker process."""

    def __init__(self, launcher: Launcher, role: WorkerRole, backend: str) -> None:
        self._launcher, self._backend = launcher, backend
        self._stranger = role in STRANGERS
        ours, theirs = socket.socketpair()
        self._connection = Connection(ours, MOST_TRACED if self._stranger else MAX_BYTES)
        self._files = launcher.new_files()
        with theirs:
            self._process = launcher.start(theirs, self._files, role)
        self._kills = process_limits.kills()
        self._greeted = self._killed = False
        self._pending: list[Question] = []

    @property
    def alive(self) -> bool:
        """Whether it can take questions, as far as this side knows."""
        return self._connection.open and not self._killed

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
        self._connection.send(codec.pack(question), SEND_SECONDS if self._stranger else None)

    def answer(self, seconds: float | None) -> Answer | Accident:
        """Wait for the answer to the oldest open question; stop the process if none comes.

        `time_limits.Patience` counts the seconds.
        """
        question = self._pending.pop(0)
        patience = Patience(self.pid, seconds)
        try:
            return understood(self._received(patience), question, self._stranger)
        except TimeoutError:
            return self._stop(question, seconds or 0.0, patience.kept_waiting)
        except (MessageTooLong, *BROKEN):
            self.close()
            return garbled()
        except ConnectionClosed:
            return self._bury(question)

    def _received(self, patience: Patience) -> bytes:
        """The next message. Raises ConnectionClosed, TimeoutError."""
        for seconds in patience.waits():
            with contextlib.suppress(TimeoutError):
                return self._connection.receive(seconds)
        raise TimeoutError

    def _greet(self) -> None:
        """Wait until the process is ready, once. Raises SandboxError if it doesn't get ready."""
        if self._greeted:
            return
        try:
            hello = codec.unpack(Hello, self._connection.receive(BOOT_SECONDS))
        except (ConnectionClosed, TimeoutError):
            reason = self._files.complained() or self._launcher.printed()
            self.close()
            raise SandboxError(f"no grading process could be started\n{reason}") from None
        if hello.backend != self._backend:
            self.close()
            raise SandboxError(f"jax should use the {self._backend}, but uses the {hello.backend}")
        self._greeted = True

    def _stop(self, question: Question, seconds: float, kept_waiting: bool) -> Accident:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGUSR1)
            time.sleep(DUMP_SECONDS)
        where, printed = self._place(question), self._files.printed()
        self.close()
        return stopped(seconds, where, printed, kept_waiting)

    def _bury(self, question: Question) -> Accident:
        ended = self._ends_by_itself()
        where, printed = self._place(question), self._files.printed()
        complaint = self._files.complained()
        code = self.close()
        if not ended or code == CONNECTION_CLOSED:
            return hung_up(where, printed)
        starved = process_limits.kills() > self._kills
        return died(code, where, printed, starved, complaint)

    def _ends_by_itself(self) -> bool:
        """Whether a process that closed its socket ends. A crash takes a moment."""
        until = time.monotonic() + ENDING_SECONDS
        while not (ended := self._process.ended()) and time.monotonic() < until:
            time.sleep(0.005)
        return ended

    def _place(self, question: Question) -> SourceLine | None:
        """The innermost line of the question's file in faulthandler's output."""
        pattern = re.compile(rf'File "{re.escape(question.source.file)}", line (\d{{1,7}})\b')
        found = pattern.search(self._files.complained())
        return place_in(question.source, int(found.group(1))) if found else None

    def kill(self) -> None:
        """End the process, whatever it is doing. A wait for its answer then ends, too."""
        self._killed = True
        # If the process is already ending, this doesn't change its exit code or signal.
        # macOS refuses to kill a zombie.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> int | None:
        """End the process, and remove its files. Returns its exit code, or minus the signal.

        None if the code is unknown.
        """
        if not self._connection.open:
            return 0
        self._connection.close()
        self.kill()
        code = self._process.wait()
        self._files.remove()
        return code


class WorkerPool:
    """One worker process for each role that is needed.

    In the attempting role, each content of a file has its own process, which may have been the
    spare. The pool uses `launcher`, which may be starting already, or makes its own with
    `isolation`.
    """

    def __init__(
        self,
        device: Device,
        launcher: Launcher | None = None,
        isolation: Isolation = Isolation.AUTO,
    ) -> None:
        self.device = device
        self._launcher = launcher or Launcher(device, isolation=isolation)
        self._workers: dict[WorkerRole, Worker] = {}
        self._attempted: SourceFile | None = None
        self._stopped = threading.Event()

    def worker(self, role: WorkerRole) -> Worker:
        """The process with a role, a new one if there is none. May raise SandboxError.

        Raises Stopped between `stop` and `go`, except for the trusted and the spare role.
        """
        self._unless_stopped(role)
        worker = self._workers.get(role)
        if worker is None or not worker.alive:
            self._drop(role)
            worker = Worker(self._launcher, role, self._backend(role))
            self._workers[role] = worker
            self._unless_stopped(role)  # `stop` may have missed the new process
        return worker

    def attempt(self, source: SourceFile) -> None:
        """Give the attempting role to this file's process. Raises Stopped, SandboxError."""
        self._unless_stopped(WorkerRole.ATTEMPTING)
        if source != self._attempted:
            self._drop(WorkerRole.ATTEMPTING)
            self._attempted = source
            if spare := self._workers.pop(WorkerRole.SPARE, None):
                self._workers[WorkerRole.ATTEMPTING] = spare
                if isinstance(spare.answer(BOOT_SECONDS), Accident):
                    self._drop(WorkerRole.ATTEMPTING)
        self.worker(WorkerRole.ATTEMPTING)

    @property
    def pids(self) -> dict[WorkerRole, int]:
        """The numbers of the current processes."""
        return {role: worker.pid for role, worker in self._workers.items() if worker.alive}

    def dismiss(self) -> None:
        """End the process of the current file, whatever it is doing."""
        self._drop(WorkerRole.ATTEMPTING)

    def renew(self, most: int = MOST_USED) -> None:
        """End the processes that have more than `most` bytes of resident memory.

        New ones start when they are needed. A `RequestQueue` sends the open questions again.
        """
        for role, worker in list(self._workers.items()):
            large = (
                process_limits.used(worker.pid) > most
                or process_limits.asked(worker.pid) > MOST_ASKED
            )
            if worker.alive and large:
                self._drop(role)

    def keep_spare(self, warm: Warm) -> None:
        """Warm up a new process for the next content of a file."""
        if WorkerRole.SPARE not in self._workers:
            self.worker(WorkerRole.SPARE).ask(warm)

    def stop(self) -> None:
        """End the current attempt, from another thread than the one that waits for it.

        Judging processes that are idle go on.
        """
        self._stopped.set()
        for role in (
            WorkerRole.ATTEMPTING,
            WorkerRole.RUNNING,
            WorkerRole.MESHED,
            WorkerRole.COMPILING,
        ):
            if (worker := self._workers.get(role)) and (
                worker.busy or role is WorkerRole.ATTEMPTING
            ):
                worker.kill()

    def go(self) -> None:
        """Allow attempts again, after `stop`."""
        self._stopped.clear()

    def _unless_stopped(self, role: WorkerRole) -> None:
        if self._stopped.is_set() and role not in (WorkerRole.TRUSTED, WorkerRole.SPARE):
            raise Stopped

    def _backend(self, role: WorkerRole) -> str:
        return self.device.backend if role is WorkerRole.RUNNING else "cpu"

    def _drop(self, role: WorkerRole) -> None:
        if worker := self._workers.pop(role, None):
            worker.close()

    def close(self) -> None:
        """End every process and remove their files."""
        for worker in self._workers.values():
            if worker.alive:
                worker.kill()  # all at once: each takes a moment to end
        for role in list(self._workers):
            self._drop(role)
        self._launcher.close()
