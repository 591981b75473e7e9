"""What is said of a worker process that was stopped, or that died."""

from __future__ import annotations

import signal

from grader.model import Accident, Place
from grader.tools.shortening import shortened
from grader.tpu.libtpu_errors import last_words

#: Signals by which a process dies, and the usual reason.
_REASONS: dict[int, str] = {
    signal.SIGSEGV: "Usual reasons: native code called with a bad address, or very deep recursion.",
    signal.SIGBUS: "Usual reasons: native code called with a bad address, or a full disk.",
    signal.SIGABRT: "A native library gave up: it met something that it does not handle.",
}
#: Lines of stderr that are shown.
LAST_LINES = 8
#: Signals that a process gets for what it does itself; all others are sent by somebody.
_FAULTS = (*_REASONS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGSYS, signal.SIGXFSZ)
_OTHERWISE = "Usual reasons: native code called with a bad address, or memory that ran out."


def stopped(
    seconds: float, where: Place | None, printed: str, kept_waiting: bool = False
) -> Accident:
    """A process that gave no answer within `seconds`.

    `kept_waiting`: the machine may have kept it from answering in time.
    """
    message = (
        f"No answer after {seconds:g} s, so the process was stopped. "
        "A second try gave no answer either.\n"
        "Usual reasons: a loop whose condition never changes; a DMA or semaphore wait that nothing "
        "ever signals (a wait without a start); or work element by element or column by column: "
        "Python writes a loop out turn by turn, and each load and store of a turn takes the "
        "interpreter as long as one of a whole block. Compute on whole blocks, x_ref[...]."
    )
    return Accident(f"no answer after {seconds:g} s", message, where, printed, True, kept_waiting)


def calls_without_end(calls: int) -> Accident:
    """A test that goes on calling the launch that it is given."""
    message = (
        f"The test has called the launch {calls} times, and was stopped.\n"
        "Usual reason: a loop around the launch that never ends, or one over far too many sizes."
    )
    return Accident(f"calls the launch {calls} times and more", message, stuck=True)


def garbled() -> Accident:
    """A process whose answer is none: only code that writes into the grader's socket does that."""
    message = (
        "The process gave an answer that is none, so it was stopped.\n"
        "Something wrote into a file descriptor that is not its own."
    )
    return Accident("gave no readable answer", message)


def hung_up(where: Place | None, printed: str) -> Accident:
    """A process that closed its connection to the grader."""
    message = (
        "The process closed its connection to the grader before the kernel was graded, so it was "
        "stopped.\nUsual reason: code that closes files which it has not opened."
    )
    return Accident("closed its connection to the grader", message, where, printed)


def died(
    code: int | None,
    where: Place | None,
    printed: str,
    starved: bool = False,
    complaint: str = "",
) -> Accident:
    """A process that ended with this exit code, or by the signal of which it is the negative.

    None stands for an end that nobody saw. `starved`: meanwhile the operating system killed some
    process for lack of memory. `complaint` is what native libraries wrote before.
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
    said = last_words(complaint)
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
    """Why a process ended with an exit code, as far as anyone can tell."""
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


def _killed(where: Place | None, printed: str, starved: bool) -> Accident:
    """No crash: SIGKILL is always sent by somebody, and here it was not the grader."""
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
