"""seccomp, Linux's filter of system calls: a small program that the kernel runs before each one.

A call that is refused answers EPERM, as for a user without rights, and nothing is killed for it. A
call from after this was written answers ENOSYS, as on the kernels of its day.
"""

from __future__ import annotations

import ctypes
import errno
import struct
from collections.abc import Iterator, Sequence

from grader.sandbox.isolation import calls
from grader.sandbox.isolation.calls import Call
from grader.sandbox.isolation.libc import Libc, Machine

_SECCOMP = {Machine.X86_64: 317, Machine.AARCH64: 277}
_SET_FILTER, _ACTION_AVAILABLE = 1, 2
_ALL_THREADS = 1

# Instructions of the classic Berkeley packet filter, and what the program returns.
_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_EQUAL, _AT_LEAST = 0x15, 0x35
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_NUMBER, _MACHINE, _ARGUMENTS = 0, 4, 16  # places in what the kernel hands over, in bytes
_X32 = 0x40000000  # added to the numbers of x86-64's calls with 32-bit pointers

Instruction = tuple[int, int, int, int]  # what to do, skip if true, skip if false, a number

_YES: Instruction = (_RETURN, 0, 0, _ALLOW)
_NO: Instruction = (_RETURN, 0, 0, _ERROR | errno.EPERM)
_UNKNOWN: Instruction = (_RETURN, 0, 0, _ERROR | errno.ENOSYS)


def probe(libc: Libc) -> None:
    """Raise OSError unless this kernel lets a filter answer with an error."""
    here = calls.known_machine()
    libc.call(_SECCOMP[here], _ACTION_AVAILABLE, 0, struct.pack("=I", _ERROR))


def install(libc: Libc, program: bytes) -> None:
    """Filter this process's calls, and those of what it starts, for good. Raises OSError."""
    code = ctypes.create_string_buffer(program, len(program))
    length = len(program) // struct.calcsize("=HBBI")
    described = struct.pack("=HxxxxxxQ", length, ctypes.addressof(code))
    libc.no_new_privileges()
    number = _SECCOMP[calls.known_machine()]
    if libc.call(number, _SET_FILTER, _ALL_THREADS, described):
        raise OSError(errno.EBUSY, "a thread has a filter of its own")


def program(machine: Machine, signals_to: int | None, truncating: bool) -> bytes:
    """The filter for a machine.

    `signals_to` is the only process that may be signalled, None where Landlock sees to that;
    `truncating` says that it sees to truncate() as well.
    """
    refused = calls.REFUSED if truncating else (*calls.REFUSED, calls.TRUNCATE)
    conditional = (*calls.CONDITIONAL, *(calls.signalling(signals_to) if signals_to else ()))
    instructions = [
        *[(_LOAD, 0, 0, _MACHINE), (_EQUAL, 1, 0, machine.value), _NO],
        *[(_LOAD, 0, 0, _NUMBER), (_AT_LEAST, 0, 1, _X32), _NO],
        *[(_AT_LEAST, 0, 1, calls.FIRST_UNKNOWN), _UNKNOWN],
        *_for(machine, refused, [_NO]),
        *_for(machine, calls.UNKNOWN, [_UNKNOWN]),
    ]
    for call, condition in conditional:
        instructions += _for(machine, [call], list(_judged(condition)))
    instructions.append(_YES)
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)


def _for(
    machine: Machine, wanted: Sequence[Call], then: list[Instruction]
) -> Iterator[Instruction]:
    """What is done with these calls; `then` ends with a return. All others pass by."""
    for call in wanted:
        number = call.number(machine)
        if number is not None:
            yield (_EQUAL, 0, len(then), number)
            yield from then


def _judged(condition: calls.Condition) -> Iterator[Instruction]:
    """Allow or refuse a call by one of its arguments, of which the low half comes first."""
    place = _ARGUMENTS + 8 * condition.argument
    if condition.high_half:
        yield from [(_LOAD, 0, 0, place + 4), (_EQUAL, 1, 0, 0), _NO]
    yield (_LOAD, 0, 0, place)
    match condition.test:
        case calls.Compare.NONE_OF:
            for value in condition.values:
                yield from [(_EQUAL, 0, 1, value), _NO]
            yield _YES
        case calls.Compare.ONE_OF:
            if condition.mask:
                yield (_AND, 0, 0, condition.mask)
            for value in condition.values:
                yield from [(_EQUAL, 0, 1, value), _YES]
            yield _NO
