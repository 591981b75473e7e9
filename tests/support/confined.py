"""Snippets of Python, each run in a fork that is confined as workers are, or that is not.

    python -m tests.support.confined FOLDER VERSION

uses this VERSION of Landlock (0: the kernel's), reads `[[confined, snippet], ...]` as JSON
from stdin and writes the outcome of each to stdout: "done", or the name of the exception and, for
an OSError, the name of its number.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from grader.sandbox import isolation
from grader.sandbox.isolation import seccomp
from grader.sandbox.isolation.seccomp import Libc

SECONDS = 20


def outcomes(folder: Path, asked: Iterable[tuple[bool, str]], version: int = 0) -> list[str]:
    """The outcome of each snippet, confined or not. Prepares `folder` for them.

    `version` is an earlier version of Landlock than the kernel's, or 0.
    """
    for name in ("repository/katas", "scratch", "elsewhere"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "repository" / "solution.py").write_text("answer = 42\n")
    for name in ("ledger.txt", "victim"):
        (folder / "elsewhere" / name).write_text("a pass\n")
    ran = subprocess.run(
        [sys.executable, "-m", __name__, str(folder), str(version)],
        input=json.dumps(list(asked)),
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return json.loads(ran.stdout)


def main(folder: Path, version: int) -> None:
    """Run the snippets from stdin, one after another."""
    asked = json.loads(sys.stdin.read())
    prepared = isolation.confinement(isolation.Isolation.REQUIRE, never=[folder / "repository"])
    if version:
        earlier = isolation.Level(version, True)
        prepared = dataclasses.replace(prepared, level=earlier, program=b"")
    bystander = subprocess.Popen(["sleep", "1000"])
    try:
        found = [_fork(folder, prepared if on else None, text, bystander.pid) for on, text in asked]
        assert bystander.poll() is None
    finally:
        bystander.kill()
    print(json.dumps(found))


def _fork(
    folder: Path, prepared: isolation.Confinement | None, snippet: str, bystander: int
) -> str:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(SECONDS)
        os.write(writing, _outcome(folder, prepared, snippet, bystander).encode())
        os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    return said or f"ended by {status}"


def _outcome(
    folder: Path, prepared: isolation.Confinement | None, snippet: str, bystander: int
) -> str:
    scratch = folder / "scratch"
    os.chdir(scratch)
    if prepared:
        assert prepared.enforce([scratch]).isolated
    names = {
        "os": os,
        "threading": threading,
        "call": _call,
        "repository": folder / "repository",
        "elsewhere": folder / "elsewhere",
        "scratch": scratch,
        "bystander": bystander,
    }
    try:
        exec(snippet, names)
    except OSError as error:
        return f"{type(error).__name__} {errno.errorcode.get(error.errno or 0, error.errno)}"
    except BaseException as error:
        return f"{type(error).__name__} {error}"
    return "done"


def _call(name: str, *arguments: Any) -> int:
    """A system call by name."""
    every = [*seccomp.REFUSED, *seccomp.UNKNOWN, *(call for call, _ in seccomp.CONDITIONAL)]
    every += [seccomp.TRUNCATE, *(call for call, _ in seccomp.signalling(1))]
    wanted = next(call for call in every if call.name == name)
    number = wanted.number(seccomp.known_machine())
    if number is None:
        raise PermissionError(errno.EPERM, "not on this machine")
    return Libc().call(number, *arguments)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
