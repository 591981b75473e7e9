"""seccomp, Linux's filter of system calls: the calls that the kernel refuses to a worker, and why.

The filter is a small program that the kernel runs before each call. A refused call returns EPERM,
as for a user without rights, and the process goes on. A call that is newer than this file returns
ENOSYS, as on older kernels. The numbers of the calls depend on the machine.
"""

from __future__ import annotations

import ctypes
import enum
import errno
import os
import platform
import struct
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_NO_NEW_PRIVS = 38  # prctl's option


class ProcessorKind(enum.Enum):
    """A kind of processor; the value is seccomp's constant for it (AUDIT_ARCH_*)."""

    X86_64 = 0xC000003E
    AARCH64 = 0xC00000B7


_NAMES = {"x86_64": ProcessorKind.X86_64, "aarch64": ProcessorKind.AARCH64}


def machine() -> ProcessorKind | None:
    """This machine's processor, if its system calls are known here; only on 64-bit Linux."""
    known = sys.platform == "linux" and sys.maxsize > 2**32
    return _NAMES.get(platform.machine()) if known else None


class Libc:
    """The C library of this process."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None, use_errno=True)
        self._library.syscall.restype = ctypes.c_long

    def call(self, number: int, *arguments: int | bytes | None) -> int:
        """Make a system call. Bytes are passed by address. Raises OSError."""
        typed = [a if a is None or isinstance(a, bytes) else ctypes.c_ulong(a) for a in arguments]
        return self._checked(self._library.syscall(ctypes.c_long(number), *typed))

    def no_new_privileges(self) -> None:
        """Promise that no program started from here gains rights, as the kernel requires."""
        self.control(_NO_NEW_PRIVS, 1)

    def control(self, option: int, value: int) -> None:
        """Set an attribute of this process, by prctl. Raises OSError."""
        rest = [ctypes.c_ulong(value), *[ctypes.c_ulong(0)] * 3]
        self._checked(self._library.prctl(ctypes.c_int(option), *rest))

    def _checked(self, result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result


@dataclass(frozen=True, slots=True)
class Call:
    """A system call and its numbers, None if the machine doesn't have it."""

    name: str
    x86_64: int | None
    aarch64: int | None

    def number(self, machine: ProcessorKind) -> int | None:
        """The call's number on this machine."""
        return self.x86_64 if machine is ProcessorKind.X86_64 else self.aarch64


class Compare(enum.Enum):
    """The test of an argument."""

    ONE_OF = "one of"  # after `mask`, if there is one
    NONE_OF = "none of"


@dataclass(frozen=True, slots=True)
class Condition:
    """A call is allowed if the argument at this index (from 0) passes a test.

    The test compares its low 32 bits. With `high_half`, the high 32 bits must be zero.
    """

    argument: int
    test: Compare
    values: tuple[int, ...]
    mask: int = 0
    high_half: bool = False


def known_machine() -> ProcessorKind:
    """This machine's processor. Raises OSError if its system calls are not known here."""
    here = machine()
    if here is None:
        raise OSError("the system calls of this machine are not known")
    return here


#: The first unused number when these lists were written.
FIRST_UNKNOWN = 470


def _calls(table: str) -> tuple[Call, ...]:
    """Calls by name, number on x86-64 and number on AArch64; "-" if the machine has none."""
    rows = (row.split() for line in table.splitlines() for row in line.partition("#")[0].split(","))
    return tuple(
        Call(row[0], *(None if number == "-" else int(number) for number in row[1:]))
        for row in rows
        if row
    )


REFUSED = _calls("""
# other processes: their memory, their open files, their placement
ptrace 101 117, process_vm_readv 310 270, process_vm_writev 311 271, kcmp 312 272,
process_madvise 440 440, process_mrelease 448 448, pidfd_open 434 434, pidfd_getfd 438 438,
pidfd_send_signal 424 424, perf_event_open 298 241, migrate_pages 256 238, move_pages 279 239,
get_robust_list 274 100
# other programs, and new processes: see clone
fork 57 -, vfork 58 -, execve 59 221, execveat 322 281
# scheduling
setpriority 141 140, sched_setscheduler 144 119, sched_setparam 142 118, sched_setattr 314 274,
ioprio_set 251 30
# mounts and namespaces
mount 165 40, umount2 166 39, pivot_root 155 41, chroot 161 51, unshare 272 97, setns 308 268,
open_tree 428 428, move_mount 429 429, fsopen 430 430, fsconfig 431 431, fsmount 432 432,
fspick 433 433, mount_setattr 442 442, open_tree_attr 467 467, statmount 457 457,
listmount 458 458, swapon 167 224, swapoff 168 225, quotactl 179 60, quotactl_fd 443 443
# the machine itself
reboot 169 142, kexec_load 246 104, kexec_file_load 320 294, init_module 175 105,
finit_module 313 273, delete_module 176 106, acct 163 89, syslog 103 116, sethostname 170 161,
setdomainname 171 162, settimeofday 164 170, clock_settime 227 112, clock_adjtime 305 266,
adjtimex 159 171, iopl 172 -, ioperm 173 -, vhangup 153 58, nfsservctl 180 42,
lookup_dcookie 212 18
# ways around the rules for files and calls; parts of the kernel with frequent security holes;
# memory that no limit counts (memfd_create)
bpf 321 280, userfaultfd 323 282, io_uring_setup 425 425, io_uring_enter 426 426,
io_uring_register 427 427, add_key 248 217, request_key 249 218, keyctl 250 219,
open_by_handle_at 304 265, name_to_handle_at 303 264, memfd_secret 447 447, memfd_create 319 279
# not covered by Landlock: modes, owners, times and attributes of files; watching files
chmod 90 -, fchmod 91 52, fchmodat 268 53, fchmodat2 452 452, chown 92 -, fchown 93 55,
lchown 94 -, fchownat 260 54, utime 132 -, utimes 235 -, futimesat 261 -, utimensat 280 88,
setxattr 188 5, lsetxattr 189 6, fsetxattr 190 7, setxattrat 463 463, removexattr 197 14,
lremovexattr 198 15, fremovexattr 199 16, removexattrat 466 466, file_setattr 469 469, mknod 133 -,
mknodat 259 33, inotify_init 253 -, inotify_init1 294 26, inotify_add_watch 254 27,
fanotify_init 300 262, fanotify_mark 301 263
# memory, messages and locks shared with other processes
shmget 29 194, shmat 30 196, shmctl 31 195, shmdt 67 197, msgget 68 186, msgsnd 69 189,
msgrcv 70 188, msgctl 71 187, semget 64 190, semop 65 193, semctl 66 191, semtimedop 220 192,
mq_open 240 180, mq_unlink 241 181, mq_timedsend 242 182, mq_timedreceive 243 183,
mq_notify 244 184
# sockets; inherited sockets still work
socket 41 198, connect 42 203, bind 49 200, listen 50 201, accept 43 202, accept4 288 242
""")

#: Returns ENOSYS, so that the C library uses clone instead, whose flags the filter can see.
UNKNOWN = (Call("clone3", 435, 435),)

#: Refused if Landlock is too old to control it.
TRUNCATE = Call("truncate", 76, 45)

_NAMESPACES, _THREAD = 0x7E020000, 0x10000  # clone's flags CLONE_NEW* and CLONE_THREAD
#: mmap's flags. No limit counts shared memory without a file.
_SHARED, _PRIVATE, _SHARED_CHECKED, _WITHOUT_FILE = 0x1, 0x2, 0x3, 0x20
_OWNERS_AND_LEASES = (8, 15, 1024, 1026)  # fcntl: F_SETOWN, F_SETOWN_EX, F_SETLEASE, F_NOTIFY
#: ioctl: TIOCSTI and TIOCLINUX type into a terminal, FIOSETOWN and SIOCSPGRP cause signals,
#: FS_IOC_SETFLAGS and FS_IOC_FSSETXATTR make files that can't be removed.
_REQUESTS = (0x5412, 0x541C, 0x8901, 0x8902, 0x40086602, 0x401C5820)
_ITSELF = (0,)

CONDITIONAL = (
    (
        # Only threads: a process that a file forks would keep the worker's socket.
        Call("clone", 56, 220),
        Condition(0, Compare.ONE_OF, (_THREAD,), mask=_THREAD | _NAMESPACES),
    ),
    (
        Call("mmap", 9, 222),
        Condition(
            3,
            Compare.ONE_OF,
            (_PRIVATE | _WITHOUT_FILE, _PRIVATE, _SHARED, _SHARED_CHECKED),
            mask=_SHARED_CHECKED | _WITHOUT_FILE,
        ),
    ),
    (Call("fcntl", 72, 25), Condition(1, Compare.NONE_OF, _OWNERS_AND_LEASES)),
    (Call("ioctl", 16, 29), Condition(1, Compare.NONE_OF, _REQUESTS)),
    (Call("prlimit64", 302, 261), Condition(0, Compare.ONE_OF, _ITSELF)),
    (Call("sched_setaffinity", 203, 122), Condition(0, Compare.ONE_OF, _ITSELF)),
    # Only pairs of streams: a datagram socket could still send to another process's socket.
    (Call("socketpair", 53, 199), Condition(1, Compare.ONE_OF, (1,), mask=0xF)),
    (Call("sendto", 44, 206), Condition(4, Compare.ONE_OF, (0,), high_half=True)),
)


def signalling(process: int) -> tuple[tuple[Call, Condition], ...]:
    """The calls that send a signal to a process by number, each allowed only for this process."""
    itself = Condition(0, Compare.ONE_OF, (process,))
    return (
        (Call("kill", 62, 129), itself),
        (Call("tkill", 200, 130), itself),
        (Call("tgkill", 234, 131), itself),
        (Call("rt_sigqueueinfo", 129, 138), itself),
        (Call("rt_tgsigqueueinfo", 297, 240), itself),
    )


_SECCOMP = {ProcessorKind.X86_64: 317, ProcessorKind.AARCH64: 277}
_SET_FILTER, _ACTION_AVAILABLE = 1, 2
_ALL_THREADS = 1

# Instructions of the classic Berkeley packet filter, and the program's return values.
_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_EQUAL, _AT_LEAST = 0x15, 0x35
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_NUMBER, _MACHINE, _ARGUMENTS = 0, 4, 16  # offsets in the kernel's data, in bytes
_X32 = 0x40000000  # added to the numbers of x86-64's calls with 32-bit pointers

Instruction = tuple[int, int, int, int]  # operation, skip if true, skip if false, a number

_YES: Instruction = (_RETURN, 0, 0, _ALLOW)
_NO: Instruction = (_RETURN, 0, 0, _ERROR | errno.EPERM)
_UNKNOWN: Instruction = (_RETURN, 0, 0, _ERROR | errno.ENOSYS)


def probe(libc: Libc) -> None:
    """Raise OSError unless this kernel lets a filter answer with an error."""
    here = known_machine()
    libc.call(_SECCOMP[here], _ACTION_AVAILABLE, 0, struct.pack("=I", _ERROR))


def install(libc: Libc, program: bytes) -> None:
    """Filter the calls of this process and of its descendants, for good. Raises OSError."""
    code = ctypes.create_string_buffer(program, len(program))
    length = len(program) // struct.calcsize("=HBBI")
    described = struct.pack("=HxxxxxxQ", length, ctypes.addressof(code))
    libc.no_new_privileges()
    number = _SECCOMP[known_machine()]
    if libc.call(number, _SET_FILTER, _ALL_THREADS, described):
        raise OSError(errno.EBUSY, "a thread has its own filter")


def program(machine: ProcessorKind, signals_to: int | None, truncating: bool) -> bytes:
    """The filter for a machine.

    `signals_to` is the only process that may be signalled, None if Landlock controls signals.
    `truncating`: Landlock also controls truncate().
    """
    refused = REFUSED if truncating else (*REFUSED, TRUNCATE)
    conditional = (*CONDITIONAL, *(signalling(signals_to) if signals_to else ()))
    instructions = [
        *[(_LOAD, 0, 0, _MACHINE), (_EQUAL, 1, 0, machine.value), _NO],
        *[(_LOAD, 0, 0, _NUMBER), (_AT_LEAST, 0, 1, _X32), _NO],
        *[(_AT_LEAST, 0, 1, FIRST_UNKNOWN), _UNKNOWN],
        *_for(machine, refused, [_NO]),
        *_for(machine, UNKNOWN, [_UNKNOWN]),
    ]
    for call, condition in conditional:
        instructions += _for(machine, [call], list(_judged(condition)))
    instructions.append(_YES)
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)


def _for(
    machine: ProcessorKind, wanted: Sequence[Call], then: list[Instruction]
) -> Iterator[Instruction]:
    """Apply `then`, which ends with a return, to these calls. Other calls go on."""
    for call in wanted:
        number = call.number(machine)
        if number is not None:
            yield (_EQUAL, 0, len(then), number)
            yield from then


def _judged(condition: Condition) -> Iterator[Instruction]:
    """Allow or refuse a call by one of its arguments, whose low half comes first in memory."""
    place = _ARGUMENTS + 8 * condition.argument
    if condition.high_half:
        yield from [(_LOAD, 0, 0, place + 4), (_EQUAL, 1, 0, 0), _NO]
    yield (_LOAD, 0, 0, place)
    match condition.test:
        case Compare.NONE_OF:
            for value in condition.values:
                yield from [(_EQUAL, 0, 1, value), _NO]
            yield _YES
        case Compare.ONE_OF:
            if condition.mask:
                yield (_AND, 0, 0, condition.mask)
            for value in condition.values:
                yield from [(_EQUAL, 0, 1, value), _YES]
            yield _NO
