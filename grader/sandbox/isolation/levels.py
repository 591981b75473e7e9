"""How far the kernel of this machine can isolate a process, and how that is said."""

from __future__ import annotations

import enum
import sys
from dataclasses import dataclass

from grader.sandbox.isolation import landlock, seccomp
from grader.sandbox.isolation.libc import Libc, machine


class Isolation(enum.Enum):
    """Whether a process that runs a learner's code is isolated."""

    AUTO = "auto"  # as far as this machine's kernel can
    REQUIRE = "require"
    OFF = "off"


class NotIsolated(RuntimeError):
    """Isolation was required, and can't be had in full: says why."""


@dataclass(frozen=True, slots=True)
class Level:
    """What a worker is isolated by; `str` is what the header says.

    `landlock_abi` is the version of the kernel's Landlock, 0 without it; `reason` says why a worker
    is not isolated, and is empty where it is.
    """

    landlock_abi: int
    seccomp: bool
    reason: str = ""

    @property
    def isolated(self) -> bool:
        return bool(self.landlock_abi and self.seccomp)

    def __str__(self) -> str:
        if not self.isolated:
            return f"not isolated: {self.reason}"
        return f"isolated: landlock {self.landlock_abi} + seccomp"


def demanded(wanted: Isolation) -> Level:
    """`level`; raises NotIsolated where isolation is required and can't be had."""
    found = level(wanted)
    if wanted is Isolation.REQUIRE and not found.isolated:
        raise NotIsolated(f"isolation is required, and there is none: {found.reason}")
    return found


def level(wanted: Isolation = Isolation.AUTO) -> Level:
    """What a worker would be isolated by on this machine; binds nobody."""
    if wanted is Isolation.OFF:
        return Level(0, False, "turned off")
    if sys.platform != "linux":
        return Level(0, False, "only Linux has Landlock and seccomp")
    if machine() is None:
        return Level(0, False, "of Linux's machines only 64-bit x86 and ARM are known here")
    libc = Libc()
    abi, reason = 0, ""
    try:
        abi = landlock.version(libc)
    except OSError as error:
        reason = f"this kernel offers no Landlock ({error.strerror}); Linux 5.13 and later can"
    try:
        seccomp.probe(libc)
    except OSError as error:
        return Level(abi, False, reason or f"this kernel offers no seccomp ({error.strerror})")
    return Level(abi, True, reason)
