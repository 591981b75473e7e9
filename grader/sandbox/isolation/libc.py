"""System calls by number, and the machines whose numbers are known."""

from __future__ import annotations

import ctypes
import enum
import os
import platform
import sys

_NO_NEW_PRIVS = 38  # prctl's option


class Machine(enum.Enum):
    """A kind of processor; the value is what seccomp calls it (AUDIT_ARCH_*)."""

    X86_64 = 0xC000003E
    AARCH64 = 0xC00000B7


_NAMES = {"x86_64": Machine.X86_64, "aarch64": Machine.AARCH64}


def machine() -> Machine | None:
    """What this process runs on, where its system calls are known: 64-bit Linux."""
    known = sys.platform == "linux" and sys.maxsize > 2**32
    return _NAMES.get(platform.machine()) if known else None


class Libc:
    """The C library of this process."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None, use_errno=True)
        self._library.syscall.restype = ctypes.c_long

    def call(self, number: int, *arguments: int | bytes | None) -> int:
        """A system call; bytes are handed over by address. Raises OSError."""
        typed = [a if a is None or isinstance(a, bytes) else ctypes.c_ulong(a) for a in arguments]
        return self._checked(self._library.syscall(ctypes.c_long(number), *typed))

    def no_new_privileges(self) -> None:
        """Promise that nothing run from here gains rights; the kernel asks for it first."""
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
