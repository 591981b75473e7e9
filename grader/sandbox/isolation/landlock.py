"""Landlock: the files that a worker may read.

Landlock is Linux's set of rules for files, TCP and signals, which any process can set for itself. A
worker may read only the files that a Python interpreter and jax need.
"""

from __future__ import annotations

import contextlib
import os
import site
import stat
import struct
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType

from grader.sandbox.isolation.seccomp import Libc

OWN_PROCESS = Path("/proc/self")  # means another folder after each fork
DEVICES = tuple(Path("/dev", name) for name in ("null", "random", "urandom"))

#: The machine's libraries, the loader's configuration, the time zone, the number of cores.
_SYSTEM = (
    *("/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/local/lib", "/usr/share/zoneinfo"),
    *("/usr/share/locale", "/usr/libexec", "/lib", "/lib32", "/lib64", "/nix/store", "/gnu/store"),
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload"),
    *(
        "/etc/localtime",
        "/etc/timezone",
        "/etc/os-release",
        "/etc/nsswitch.conf",
        "/etc/locale.alias",
    ),
    *("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/version"),
    *("/proc/filesystems", "/proc/sys/vm", "/proc/sys/kernel/osrelease"),
    *("/proc/sys/kernel/threads-max", "/proc/sys/kernel/pid_max", "/proc/sys/kernel/ngroups_max"),
    *("/sys/devices/system", "/sys/fs/cgroup", "/sys/kernel/mm"),
)
_OF_A_PREFIX = ("lib", "lib64", "share", "pyvenv.cfg")
_OURS = ("grader", "pallascope")
_PACKAGES = ("site-packages", "dist-packages")


def readable(also: Sequence[Path] = (), never: Sequence[Path] = ()) -> tuple[Path, ...]:
    """Every file and folder that a worker may read, by its real path, including `also`.

    Paths below `never` are left out, unless they belong to the interpreter or to `also`.
    """
    closed = [path.resolve() for path in never]
    open_ = [part for path in _whole_folders(closed) for part in _around(path, closed)]
    return _outermost([*open_, *_existing(also)])


def listable(never: Sequence[Path]) -> tuple[Path, ...]:
    """The folders that would be readable if `never` didn't lie in them.

    A worker may list them and all folders below, because Python lists a package's folder when it
    imports a module from it.
    """
    closed = [path.resolve() for path in never]
    folders = _whole_folders(closed)
    return _outermost(path for path in folders if [*_around(path, closed)] != [path])


def _whole_folders(closed: Sequence[Path]) -> list[Path]:
    own = list(dict.fromkeys(_existing(_interpreter())))
    beyond = [*_link_targets(own), *_imported(sys.modules.values(), own)]
    outside = [path for path in _existing(beyond) if not _below(path, closed)]
    return [*own, *_existing(map(Path, _SYSTEM)), *outside]


def _interpreter() -> Iterator[Path]:
    """Folders of the standard library and of installed packages."""
    for prefix in {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}:
        yield from (Path(prefix, name) for name in _OF_A_PREFIX)
    yield from (Path(entry) for entry in sys.path if Path(entry).name in _PACKAGES)
    if site.ENABLE_USER_SITE:
        yield Path(site.getusersitepackages())


def _link_targets(folders: Iterable[Path]) -> Iterator[Path]:
    """The folders of packages that are installed as links."""
    below = {path for folder in folders for path in _package_folders(folder)}
    for folder in below:
        with os.scandir(folder) as entries:
            yield from (Path(entry.path) for entry in entries if entry.is_symlink())


def _package_folders(folder: Path) -> Iterator[Path]:
    if folder.name in _PACKAGES:
        yield folder
    else:
        yield from (path for path in folder.glob("python3*/*-packages") if path.is_dir())


def _imported(modules: Iterable[ModuleType], own: Sequence[Path]) -> Iterator[Path]:
    """The folders of imported packages, and the files of other imported modules.

    Modules in `own` are skipped, unless they are links.
    """
    inside = tuple(f"{folder}{os.sep}" for folder in own)
    for module in list(modules):
        name = getattr(module, "__name__", "")
        if "." in name or name in ("__main__", *_OURS):
            continue
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and (not file.startswith(inside) or os.path.islink(file)):
            real = Path(os.path.realpath(file))
            yield real.parent if hasattr(module, "__path__") else real


def _existing(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        try:
            yield path.resolve(strict=True)
        except OSError:
            continue


def _below(path: Path, folders: Iterable[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _around(path: Path, closed: Sequence[Path]) -> Iterator[Path]:
    """The folder `path`; if it contains a closed path, everything else in it."""
    if not any(folder.is_relative_to(path) and folder != path for folder in closed):
        yield path
        return
    for inner in path.iterdir():
        real = inner.resolve()
        if real.is_relative_to(path) and real not in closed:
            yield from _around(real, closed)


def _outermost(paths: Iterable[Path]) -> tuple[Path, ...]:
    """The paths that are not below another one."""
    kept: list[Path] = []
    for path in sorted(set(paths)):  # by their parts, so a folder comes right before what it holds
        if not _below(path, kept[-1:]):
            kept.append(path)
    return tuple(kept)


_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_TELL_VERSION = 1
_BENEATH = 1  # the kind of rule: for a file, or for everything below a folder

WRITE_FILE, READ_FILE, READ_DIR = 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE, MAKE_DIR, MAKE_FILE = 1 << 4, 1 << 5, 1 << 7, 1 << 8
MAKE_LINK, MOVE, TRUNCATE, IOCTL = 1 << 12, 1 << 13, 1 << 14, 1 << 15

READ = READ_FILE | READ_DIR
#: No devices, sockets or pipes, and no execution of files.
WRITE = READ | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_FILE | MAKE_LINK | MOVE
WRITE |= TRUNCATE
DEVICE = READ_FILE | WRITE_FILE | TRUNCATE | IOCTL
_OF_A_FILE = READ_FILE | WRITE_FILE | TRUNCATE | IOCTL

TCP, SCOPES = 0b11, 0b11  # bind and connect; abstract sockets and signals
TRUNCATING, TCP_RULES, SIGNALS = 3, 4, 6  # the first versions with these rules

#: The number of kinds of file access that each version can refuse, from version 1 on.
_KINDS = (13, 14, 15, 15, 16, 16, 16)


def version(libc: Libc) -> int:
    """The version of Landlock's interface in this kernel. Raises OSError without Landlock."""
    return libc.call(_CREATE_RULESET, None, 0, _TELL_VERSION)


def restrict(libc: Libc, abi: int, rules: Iterable[tuple[Path, int]]) -> None:
    """Limit this thread, and everything that it starts, to these paths with their rights.

    Paths that don't exist are skipped. Raises OSError.
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
