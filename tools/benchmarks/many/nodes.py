"""A Ray cluster on this machine: a head without cores, and nodes of one core that can be killed."""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tools.benchmarks.many.processes import MARK, descendants, running

SMALL = "100000000"  # bytes of object store
STARTING_SECONDS = 90.0
RAY = (sys.executable, "-m", "ray.scripts.scripts")


class Nodes:
    """A head and `count` nodes, all ended with the `with`."""

    def __init__(self, count: int, mark: str, temporary: Path) -> None:
        self._count = count
        # A socket's path has at most some 100 characters, so a folder with a short name.
        self._folder = Path(tempfile.mkdtemp(prefix="gm-", dir="/tmp"))
        self._log = temporary.parent / "ray.log"
        self.environ = {
            **os.environ,
            MARK: mark,
            "TMPDIR": str(temporary),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
        }
        self.address = f"127.0.0.1:{_free_port()}"
        self._numbers = itertools.count()
        self._nodes: list[subprocess.Popen[bytes]] = []
        self._head: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        port = self.address.rpartition(":")[2]
        here = ("--node-ip-address=127.0.0.1", "--include-dashboard=false")
        try:
            self._head = self._started("--head", f"--port={port}", "--num-cpus=0", *here)
            _wait_for(int(port))
            for _ in range(self._count):
                self.add()
        except BaseException:
            self.__exit__()
            raise
        return self

    def add(self) -> None:
        """Start one more node."""
        self._nodes.append(self._started(f"--address={self.address}", "--num-cpus=1"))

    def raylet(self, number: int) -> int:
        """The process that is a node for Ray; without it the node is dead."""
        node = self._nodes[number % len(self._nodes)]
        seen = list(running(self.environ[MARK]))
        return next(
            one.pid for one in descendants(node.pid, seen) if "raylet/raylet" in one.command
        )

    def replace(self) -> None:
        """Start a new node for each that has ended."""
        for node in [node for node in self._nodes if node.poll() is not None]:
            self._nodes.remove(node)
        while len(self._nodes) < self._count:
            self.add()

    def __exit__(self, *_: object) -> None:
        for process in (*self._nodes, *([self._head] if self._head else [])):
            process.terminate()
        for process in (*self._nodes, *([self._head] if self._head else [])):
            _ended(process, 30)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _started(self, *options: str) -> subprocess.Popen[bytes]:
        return started(
            [
                *RAY,
                "start",
                "--block",
                "--disable-usage-stats",
                "--include-log-monitor=false",
                f"--object-store-memory={SMALL}",
                *options,
                f"--temp-dir={self._folder / str(next(self._numbers))}",  # as if on its own machine
            ],
            self.environ,
            self._log,
        )


def started(command: list[str], environ: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    """A process in a session of its own, which adds to a log."""
    with open(log, "ab") as out:
        return subprocess.Popen(
            command,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )


def _ended(process: subprocess.Popen[bytes], seconds: float) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    process.kill()
    process.wait()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _wait_for(port: int) -> None:
    until = time.monotonic() + STARTING_SECONDS
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        time.sleep(0.2)
    raise TimeoutError(f"Ray's head has not begun within {STARTING_SECONDS:g} s")
