"""Landlock, Linux's rules for files, TCP and signals that any process can set for itself."""

from __future__ import annotations

import contextlib
import os
import stat
import struct
from collections.abc import Iterable
from pathlib import Path

from grader.sandbox.isolation.libc import Libc

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_TELL_VERSION = 1
_BENEATH = 1  # the kind of rule: for a file, or for all that is beneath a folder

WRITE_FILE, READ_FILE, READ_DIR = 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE, MAKE_DIR, MAKE_FILE = 1 << 4, 1 << 5, 1 << 7, 1 << 8
MAKE_LINK, MOVE, TRUNCATE, IOCTL = 1 << 12, 1 << 13, 1 << 14, 1 << 15

READ = READ_FILE | READ_DIR
#: No devices, sockets or pipes, and nothing that could be executed.
WRITE = READ | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_FILE | MAKE_LINK | MOVE
WRITE |= TRUNCATE
DEVICE = READ_FILE | WRITE_FILE | TRUNCATE | IOCTL
_OF_A_FILE = READ_FILE | WRITE_FILE | TRUNCATE | IOCTL

TCP, SCOPES = 0b11, 0b11  # bind and connect; abstract sockets and signals
TRUNCATING, TCP_RULES, SIGNALS = 3, 4, 6  # the versions that brought them

#: How many kinds of access to files each version can refuse, from the first one on.
_KINDS = (13, 14, 15, 15, 16, 16, 16)


def version(libc: Libc) -> int:
    """The version of Landlock's interface in this kernel. Raises OSError where there is none."""
    return libc.call(_CREATE_RULESET, None, 0, _TELL_VERSION)


def restrict(libc: Libc, abi: int, rules: Iterable[tuple[Path, int]]) -> None:
    """Refuse this thread, and what it starts, all files but these paths with their rights.

    Paths that don't exist are passed over. Raises OSError.
    """
    every = (1 << _KINDS[min(abi, len(_KINDS)) - 1]) - 1
    words = [every, *([TCP] if abi >= TCP_RULES else []), *([SCOPES] if abi >= SIGNALS else [])]
    attributes = struct.pack(f"={len(words)}Q", *words)
    ruleset = libc.call(_CREATE_RULESET, attributes, len(attributes), 0)
    try:
        for path, rights in rules:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                _allow(libc, ruleset, path, rights & every)
        libc.no_new_privileges()
        libc.call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(libc: Libc, ruleset: int, path: Path, rights: int) -> None:
    opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(opened).st_mode):
            rights &= _OF_A_FILE
        libc.call(_ADD_RULE, ruleset, _BENEATH, struct.pack("=Qi", rights, opened), 0)
    finally:
        os.close(opened)
