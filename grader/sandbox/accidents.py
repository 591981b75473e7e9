"""What is said of a worker process that was stopped, or that died."""

from __future__ import annotations

import signal

from grader.model import Accident, Place

#: Signals by which a process dies, and the usual reason.
_REASONS = {
    signal.SIGKILL: "Usually the machine, or the process's own limit, ran out of memory.",
    signal.SIGSEGV: "Usual reasons: native code called with a bad address, or very deep recursion.",
    signal.SIGBUS: "Usual reasons: native code called with a bad address, or a full disk.",
    signal.SIGABRT: "A native library gave up: it met something that it does not handle.",
}
_OTHERWISE = "Usual reasons: native code called with a bad address, or memory that ran out."


def stopped(seconds: float, where: Place | None, printed: str) -> Accident:
    """A process that gave no answer within `seconds`."""
    message = (
        f"No answer after {seconds:g} s, so the process was stopped.\n"
        "Usual reasons: a loop whose condition never changes, or a DMA or semaphore wait that "
        "nothing ever signals (a wait without a start)."
    )
    return Accident(f"no answer after {seconds:g} s", message, where, printed, stuck=True)


def garbled() -> Accident:
    """A process whose answer is none: only code that writes into the grader's socket does that."""
    message = (
        "The process gave an answer that is none, so it was stopped.\n"
        "Something wrote into a file descriptor that is not its own."
    )
    return Accident("gave no readable answer", message)


def died(code: int, where: Place | None, printed: str) -> Accident:
    """A process that ended with this exit code, or by the signal of which it is the negative."""
    if code >= 0:
        message = (
            f"The process ended with exit code {code} before the kernel was graded.\n"
            "Something called os._exit, which a kata never needs."
        )
        return Accident(f"left the process (exit code {code})", message, where, printed)
    number = signal.Signals(-code)
    message = (
        f"The process crashed with {number.name} before the kernel was graded.\n"
        f"{_REASONS.get(number, _OTHERWISE)}"
    )
    return Accident(f"crashed ({number.name})", message, where, printed, crashed=True)
