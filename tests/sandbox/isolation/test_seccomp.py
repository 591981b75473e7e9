"""The filter of system calls, run here as the kernel would run it, for each machine."""

from __future__ import annotations

import errno
import re
import struct
from pathlib import Path

import pytest

from grader.sandbox.isolation import seccomp
from grader.sandbox.isolation.seccomp import ProcessorKind

ALLOWED, REFUSED, UNKNOWN = 0, errno.EPERM, errno.ENOSYS
EVERY_MACHINE = pytest.mark.parametrize("machine", ProcessorKind, ids=lambda machine: machine.name)

#: Each machine's own list of numbers, where a C compiler's headers are installed.
HEADERS = {
    ProcessorKind.X86_64: Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    ProcessorKind.AARCH64: Path("/usr/include/asm-generic/unistd.h"),
}


def judged(program: bytes, machine: int, number: int, arguments: tuple[int, ...] = (0,) * 6) -> int:
    """The error that a call is answered with, 0 where it is let through."""
    instructions = list(struct.iter_unpack("=HBBI", program))
    data = struct.pack("=IIQ6Q", number, machine, 0, *arguments)
    place = held = 0
    while True:
        code, if_true, if_false, value = instructions[place]
        place += 1
        if code == 0x20:
            (held,) = struct.unpack_from("=I", data, value)
        elif code == 0x54:
            held &= value
        elif code == 0x06:
            return 0 if value == 0x7FFF0000 else value & 0xFFFF
        else:
            true = {0x15: held == value, 0x35: held >= value}[code]
            place += if_true if true else if_false


def every_call() -> list[seccomp.Call]:
    named = [*seccomp.REFUSED, *seccomp.UNKNOWN, seccomp.TRUNCATE]
    conditional = (*seccomp.CONDITIONAL, *seccomp.signalling(7))
    return [*named, *(call for call, _ in conditional)]


@EVERY_MACHINE
def test_every_call_is_judged_by_its_number(machine: ProcessorKind) -> None:
    program = seccomp.program(machine, None, truncating=True)
    for call in seccomp.REFUSED:
        if (number := call.number(machine)) is not None:
            assert judged(program, machine.value, number) == REFUSED, call.name
    for call in seccomp.UNKNOWN:
        assert judged(program, machine.value, call.number(machine) or 0) == UNKNOWN
    known = {call.number(machine) for call in every_call()}
    for number in set(range(seccomp.FIRST_UNKNOWN)) - known:
        assert judged(program, machine.value, number) == ALLOWED, number
    assert judged(program, machine.value, seccomp.FIRST_UNKNOWN) == UNKNOWN


@EVERY_MACHINE
def test_calls_of_another_machine_are_refused(machine: ProcessorKind) -> None:
    """As those of 32-bit programs, which have numbers of their own."""
    program = seccomp.program(machine, None, truncating=True)
    assert judged(program, 0x40000003, 20) == REFUSED
    assert judged(program, machine.value, 0x40000000 + 39) == REFUSED


@pytest.mark.parametrize(
    ("name", "arguments", "answer"),
    [
        ("clone", (0x3D0F00,), ALLOWED),
        ("clone", (0x3D0F00 | 0x10000000,), REFUSED),
        ("clone", (0x10000000 | 17,), REFUSED),
        ("clone", (17,), REFUSED),
        ("clone", (0x1200011,), REFUSED),
        ("mmap", (0, 4096, 3, 0x22), ALLOWED),
        ("mmap", (0, 4096, 3, 0x4022), ALLOWED),
        ("mmap", (0, 4096, 3, 0x802), ALLOWED),
        ("mmap", (0, 4096, 3, 0x1), ALLOWED),
        ("mmap", (0, 4096, 3, 0x21), REFUSED),
        ("mmap", (0, 4096, 3, 0x23), REFUSED),
        ("prlimit64", (0,), ALLOWED),
        ("prlimit64", (7,), REFUSED),
        ("socketpair", (1, 1 | 0o2000000), ALLOWED),
        ("socketpair", (1, 2), REFUSED),
        ("sendto", (3, 1 << 40, 10, 0, 0), ALLOWED),
        ("sendto", (3, 1 << 40, 10, 0, 1 << 40), REFUSED),
        ("sendto", (3, 1 << 40, 10, 0, 0x1000), REFUSED),
        ("ioctl", (0, 0x5401), ALLOWED),
        ("ioctl", (0, 0x5412), REFUSED),
        ("ioctl", (0, (1 << 32) | 0x5412), REFUSED),
        ("fcntl", (3, 1), ALLOWED),
        ("fcntl", (3, 15), REFUSED),
        ("kill", (7, 9), ALLOWED),
        ("kill", (8, 9), REFUSED),
        ("kill", (2**64 - 1, 9), REFUSED),
        ("tgkill", (7, 9, 6), ALLOWED),
        ("truncate", (0, 0), REFUSED),
    ],
)
@EVERY_MACHINE
def test_some_calls_are_judged_by_their_arguments(
    machine: ProcessorKind, name: str, arguments: tuple[int, ...], answer: int
) -> None:
    """Signals and truncate() too, where Landlock is too old to see to them."""
    program = seccomp.program(machine, 7, truncating=False)
    number = next(call.number(machine) for call in every_call() if call.name == name)
    padded = (*arguments, *(0,) * (6 - len(arguments)))
    assert judged(program, machine.value, number or 0, padded) == answer


@EVERY_MACHINE
def test_the_numbers_are_those_of_the_kernels_headers(machine: ProcessorKind) -> None:
    if not HEADERS[machine].exists():
        pytest.skip("the kernel's headers are not installed")
    text = HEADERS[machine].read_text()
    found = {
        name: int(number)
        for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", text)
    }
    ours = {call.name: call.number(machine) for call in every_call()}
    assert {name: ours[name] for name in ours if name in found} == {
        name: found[name] for name in ours if name in found
    }
