"""Isolates a process as far as this machine's kernel can.

A process prepares a `Confinement` once, before it forks. Each forked process enforces it.
"""

from __future__ import annotations

import dataclasses
import enum
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.sandbox.isolation import landlock, seccomp
from grader.sandbox.isolation.landlock import DEVICES, OWN_PROCESS, readable
from grader.sandbox.isolation.seccomp import Libc, ProcessorKind, machine


class Isolation(enum.Enum):
    """Whether a process that runs a learner's code is isolated."""

    AUTO = "auto"  # as far as this machine's kernel can
    REQUIRE = "require"
    OFF = "off"


class NotIsolated(RuntimeError):
    """Isolation is required, and this machine can't isolate fully. The text says why."""


@dataclass(frozen=True, slots=True)
class Level:
    """The isolation of a worker; `str` gives the header's text.

    `landlock_abi` is the version of the kernel's Landlock, 0 without it; `reason` says why a worker
    is not isolated, "" if it is.
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
    """`level`; raises NotIsolated if isolation is required and this machine can't isolate."""
    found = level(wanted)
    if wanted is Isolation.REQUIRE and not found.isolated:
        raise NotIsolated(f"isolation is required, but not possible: {found.reason}")
    return found


def level(wanted: Isolation = Isolation.AUTO) -> Level:
    """The isolation that a worker would get on this machine. Confines nothing."""
    if wanted is Isolation.OFF:
        return Level(0, False, "turned off")
    if sys.platform != "linux":
        return Level(0, False, "only Linux has Landlock and seccomp")
    if machine() is None:
        return Level(0, False, "on Linux, only 64-bit x86 and ARM are supported")
    libc = Libc()
    abi, reason = 0, ""
    try:
        abi = landlock.version(libc)
    except OSError as error:
        reason = f"this kernel has no Landlock ({error.strerror}); Linux 5.13 and later can have it"
    try:
        seccomp.probe(libc)
    except OSError as error:
        return Level(abi, False, reason or f"this kernel has no seccomp ({error.strerror})")
    return Level(abi, True, reason)


@dataclass(frozen=True, slots=True)
class Confinement:
    """The rules that a worker will enforce. `level` is the isolation that the kernel offers.

    `listable` are folders of which only names may be read, also of those below.
    `program` is the filter of system calls, if it is the same in every process.
    """

    level: Level
    required: bool
    readable: tuple[Path, ...]
    program: bytes = b""
    listable: tuple[Path, ...] = ()

    def enforce(self, writable: Sequence[Path] = ()) -> Level:
        """Confine this process for good; it may write to files and folders in `writable`.

        Call this while the process has one thread. Returns the isolation that was reached. Raises
        NotIsolated if isolation is required and the kernel refused a part of it.
        """
        here = machine()
        if here is None:
            return self.level
        libc, reached = Libc(), self.level
        if reached.landlock_abi:
            try:
                landlock.restrict(libc, reached.landlock_abi, self._rules(writable))
            except OSError as error:
                reached = Level(0, reached.seccomp, f"Landlock refused: {error.strerror}")
        if reached.seccomp:
            try:
                seccomp.install(libc, self._program(here, reached.landlock_abi))
            except OSError as error:
                why = reached.reason or f"seccomp refused: {error.strerror}"
                reached = dataclasses.replace(reached, seccomp=False, reason=why)
        _demand(self.required, reached)
        return reached

    def _rules(self, writable: Sequence[Path]) -> list[tuple[Path, int]]:
        return [
            *((path, landlock.READ) for path in (*self.readable, OWN_PROCESS)),
            *((path, landlock.READ_DIR) for path in self.listable),
            *((path, landlock.DEVICE) for path in DEVICES),
            *((path, landlock.WRITE) for path in writable),
        ]

    def _program(self, here: ProcessorKind, abi: int) -> bytes:
        if self.program and abi == self.level.landlock_abi:
            return self.program
        return seccomp.program(here, os.getpid(), truncating=abi >= landlock.TRUNCATING)


def confinement(
    wanted: Isolation, also: Sequence[Path] = (), never: Sequence[Path] = ()
) -> Confinement:
    """Prepare to confine the processes forked from this one.

    They may read the interpreter, the modules imported so far and `also`, but nothing below `never`
    (the repository), except `also` and an interpreter that lies there. Raises NotIsolated if
    isolation is required and the kernel doesn't offer it.
    """
    required, found = wanted is Isolation.REQUIRE, demanded(wanted)
    here = machine()
    if here is None or not found.landlock_abi:
        return Confinement(found, required, ())
    # Landlock limits signals to a process and its children. Without that, the filter lets a process
    # signal only itself, so the filter depends on the process's number.
    scoped = found.landlock_abi >= landlock.SIGNALS
    program = seccomp.program(here, None, truncating=True) if scoped else b""
    return Confinement(found, required, readable(also, never), program, landlock.listable(never))


def _demand(required: bool, reached: Level) -> None:
    if required and not reached.isolated:
        raise NotIsolated(f"isolation is required, but not possible: {reached.reason}")
